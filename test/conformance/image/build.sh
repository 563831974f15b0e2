#!/usr/bin/env bash
# Builds the container images as `docker build` would, without a Docker daemon or an image registry:
#   nereid:node-22, nereid:node-24   the Dockerfile, on each Node.js it is promised for
#   nereid:python                    deploy/python on top of nereid:node-24
# Needs root on Debian or Ubuntu. Everything is kept in .tools/image, so a second run builds only
# what changed.
set -euo pipefail
cd "$(dirname "$0")/../../.."

declare -A NODE_PACKAGES=([22]=22.23.5 [24]=24.22.3)
NPM_PACKAGE=10.9.4

install_tools() {
  local tool missing=()
  for tool in podman buildah debootstrap runc; do
    command -v "$tool" > /dev/null || missing+=("$tool")
  done
  [ ${#missing[@]} -eq 0 ] && return
  apt-get update --quiet
  apt-get install --yes --quiet --no-install-recommends "${missing[@]}"
}

# The Debian mirror that this machine itself uses.
debian_mirror() {
  grep -rhoE '^URIs: \S+|^deb (\[[^]]*\] )?\S+' /etc/apt/sources.list /etc/apt/sources.list.d 2> /dev/null \
    | grep -oE 'https?://\S*debian\S*' | head -n 1
}

make_debian() {
  buildah "${STORE[@]}" inspect localhost/debian:trixie-slim > /dev/null 2>&1 && return
  rm -rf "$WORK/rootfs"
  debootstrap --variant=minbase --include=ca-certificates trixie "$WORK/rootfs" "$(debian_mirror)"
  rm -rf "$WORK"/rootfs/var/lib/apt/lists/* "$WORK"/rootfs/var/cache/apt/*.bin \
    "$WORK"/rootfs/var/cache/apt/archives/*.deb "$WORK"/rootfs/usr/share/{doc,man,locale}
  tar -C "$WORK/rootfs" -c . | podman "${STORE[@]}" import - localhost/debian:trixie-slim
  rm -rf "$WORK/rootfs"
}

make_node() {
  local major=$1 folder="$WORK/node-$1" architecture
  local tag="docker.io/library/node:$major-trixie-slim"
  buildah "${STORE[@]}" inspect "$tag" > /dev/null 2>&1 && return
  architecture="$(node -p process.arch)"
  mkdir -p "$folder"
  echo '{}' > "$folder/package.json"
  npm install --prefix "$folder" --no-audit --no-fund \
    "node-linux-$architecture@${NODE_PACKAGES[$major]}" "npm@$NPM_PACKAGE"
  rm -rf "$folder/context"
  mkdir "$folder/context"
  cp "$folder/node_modules/node-linux-$architecture/bin/node" "$folder/context/node"
  cp -r "$folder/node_modules/npm" "$folder/context/npm"
  buildah "${STORE[@]}" bud --isolation chroot -f test/conformance/image/Base.Dockerfile -t "$tag" "$folder/context"
  rm -rf "$folder"
}

# --isolation chroot: no rights to set up a network or cgroups are needed. The certificates and the
# registry of this machine's npm are lent to the build, because it may sit behind a proxy.
build() {
  buildah "${STORE[@]}" bud --isolation chroot --network host --format docker --layers --pull-never \
    --volume /etc/ssl/certs:/etc/ssl/certs:ro --volume "$WORK/npmrc:/root/.npmrc:ro" "$@"
}

install_tools
mkdir -p .tools/image
WORK="$(cd .tools/image && pwd -P)"
STORE=(--root "$WORK/storage" --runroot /run/nereid-image)
{
  echo 'cafile=/etc/ssl/certs/ca-certificates.crt'
  echo "registry=$(npm config get registry)"
} > "$WORK/npmrc"

make_debian
for major in "${!NODE_PACKAGES[@]}"; do
  make_node "$major"
  build --build-arg "NODE_VERSION=$major" -t "localhost/nereid:node-$major" .
done
build --build-arg BASE=localhost/nereid:node-24 -t localhost/nereid:python deploy/python
