# syntax=docker/dockerfile:1
# Debian trixie or newer: the HTTP module for Node.js 22 and 24 needs glibc 2.38.
ARG NODE_VERSION=24
FROM node:${NODE_VERSION}-trixie-slim AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY tsconfig.json ./
COPY src src
COPY workers workers
RUN npm run build && npm prune --omit=dev
# Native modules come for every platform: keep the files of this one (saves about 500 MB).
RUN set -e; \
    arch="$(node -p process.arch)"; abi="$(node -p process.versions.modules)"; \
    find node_modules/uWebSockets.js -name '*.node' ! -name "uws_linux_${arch}_${abi}.node" -delete; \
    find node_modules/onnxruntime-node/bin -type f ! -path "*/linux/${arch}/*" -delete

FROM node:${NODE_VERSION}-trixie-slim
ENV NODE_ENV=production NEREID_MODEL_REPOSITORY=/models
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/workers workers
COPY model_repository /models
# The user `node` of the Node.js image, as a number: Kubernetes must see that it is not root.
USER 1000
EXPOSE 8000 8001 8002
# Asks the port that the variables name: give the port as a variable, not as an argument.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.NEREID_HTTP_PORT || process.env.PORT || 8000}/v2/health/live`).then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
# Exec form: the server itself is process 1 and gets the signals.
# Arguments of `docker run` are options of the server.
ENTRYPOINT ["node", "/app/dist/src/main.js"]
