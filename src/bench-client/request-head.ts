export type HeaderLines = readonly (readonly [name: string, value: string])[];

export interface HttpRequest {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers: HeaderLines;
  /** Undefined for a request without one; its length becomes a header. */
  readonly body: Uint8Array | undefined;
}

/** The bytes of a whole request, ready to be written as often as wanted. */
export function formatRequest({ method, path, headers, body }: HttpRequest): Buffer {
  const length = body === undefined ? [] : [['Content-Length', String(body.byteLength)] as const];
  const lines = [...headers, ...length].map(([name, value]) => `${name}: ${value}\r\n`);
  const head = Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1');
  return body === undefined ? head : Buffer.concat([head, body]);
}
