import { invalidArg, notFound, unavailable } from '../errors.js';
import { HttpConnection, type HttpTarget, type TlsSettings } from './http-connection.js';
import { formatRequest, type HeaderLines } from './request-head.js';
import type { HttpResponse } from './response-reader.js';

/** A server of the v2 inference protocol, and how requests reach it. */
export interface V2Target extends HttpTarget {
  /** In front of `/v2`, without a slash at its end. */
  readonly basePath: string;
  /** `Host`, and what the user adds. */
  readonly headers: HeaderLines;
}

/** `host:port`, `http://host:port/path` or `https://...` as a target. INVALID_ARG for other texts. */
export function parseTarget(text: string, headers: HeaderLines, tls: TlsSettings): V2Target {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `http://${text}`;
  const url = URL.canParse(full) ? new URL(full) : undefined;
  if (url === undefined || url.hostname === '') throw invalidArg(`'${text}' is not HOST:PORT`);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw invalidArg(`'${text}': only http and https are spoken`);
  }
  const isTls = url.protocol === 'https:';
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: Number(url.port === '' ? (isTls ? 443 : 80) : url.port),
    tls: isTls ? tls : undefined,
    basePath: url.pathname.replace(/\/+$/, ''),
    headers: [['Host', url.host], ...headers],
  };
}

/** A version of a model; '' is the one that the server chooses. */
export interface ModelName {
  readonly name: string;
  readonly version: string;
}

/** `/v2/models/M` or `/v2/models/M/versions/V`. */
export function modelPath(target: V2Target, { name, version }: ModelName): string {
  const path = `${target.basePath}/v2/models/${encodeURIComponent(name)}`;
  return version === '' ? path : `${path}/versions/${encodeURIComponent(version)}`;
}

/** The calls beside inference. One connection, used by one call at a time. */
export class V2Server {
  readonly target: V2Target;
  readonly #connection: HttpConnection;

  constructor(target: V2Target) {
    this.target = target;
    this.#connection = new HttpConnection(target, () => true);
  }

  /** The model's metadata, unchecked. NOT_FOUND or UNAVAILABLE with the server's words. */
  async metadata(model: ModelName): Promise<unknown> {
    const response = await this.#get(modelPath(this.target, model));
    if (response.status !== 200) {
      throw notFound(`model '${model.name}': ${answerText(response)}`);
    }
    return parseJson(response);
  }

  /** The model's configuration, unchecked; undefined for servers that have no such call. */
  async configuration(model: ModelName): Promise<unknown> {
    return this.#optional(`${modelPath(this.target, model)}/config`);
  }

  /** The model's statistics, unchecked; undefined for servers that have no such call. */
  async statistics(model: ModelName): Promise<unknown> {
    return this.#optional(`${modelPath(this.target, model)}/stats`);
  }

  async isReady(): Promise<boolean> {
    const { status } = await this.#get(`${this.target.basePath}/v2/health/ready`);
    return status === 200;
  }

  /** Loads a model with a configuration in place of its own. INVALID_ARG with the server's words. */
  async load(name: string, configuration: string | undefined): Promise<void> {
    const path = `${this.target.basePath}/v2/repository/models/${encodeURIComponent(name)}/load`;
    const body = configuration === undefined ? {} : { parameters: { config: configuration } };
    const response = await this.#call(
      formatRequest({
        method: 'POST',
        path,
        headers: [...this.target.headers, ['Content-Type', 'application/json']],
        body: Buffer.from(JSON.stringify(body)),
      }),
    );
    if (response.status !== 200) throw invalidArg(answerText(response));
  }

  close(): void {
    this.#connection.destroy();
  }

  async #optional(path: string): Promise<unknown> {
    const response = await this.#get(path);
    return response.status === 200 ? parseJson(response) : undefined;
  }

  #get(path: string): Promise<HttpResponse> {
    const { headers } = this.target;
    return this.#call(formatRequest({ method: 'GET', path, headers, body: undefined }));
  }

  async #call(request: Buffer): Promise<HttpResponse> {
    return new Promise((resolve, reject) => {
      this.#connection.send(request, (outcome) => {
        if (outcome.kind === 'response') resolve(outcome.response);
        else {
          const { host, port } = this.target;
          reject(unavailable(`no answer from ${host}:${port}: ${outcome.reason}`));
        }
      });
    });
  }
}

/** What a server says of a failure: its `error` where the body is JSON, else status and text. */
export function answerText({ status, body }: HttpResponse): string {
  const text = body?.toString('utf8', 0, 500).trim() ?? '';
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && 'error' in value) {
      return `${status}: ${String(value.error)}`;
    }
  } catch {
    // Not JSON: shown as it is.
  }
  return text === '' ? `status ${status}` : `${status}: ${text.replaceAll(/\s+/g, ' ')}`;
}

function parseJson(response: HttpResponse): unknown {
  try {
    const value: unknown = JSON.parse(response.body?.toString() ?? '');
    return value;
  } catch (error) {
    throw invalidArg(`the server's answer is not JSON: ${answerText(response)}`, error);
  }
}
