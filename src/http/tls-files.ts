import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { invalidArg } from '../errors.js';
import type { TlsOptions } from './transport.js';

/** What the files of {@link TlsOptions} hold, in the shape of Node's TLS options. */
export interface TlsContent {
  readonly key: Buffer;
  readonly cert: Buffer;
  readonly ca?: Buffer;
}

/**
 * Reads key and certificates and checks that they fit together: uWebSockets.js says nothing but
 * that it failed. Throws INVALID_ARG.
 */
export function readTlsFiles(tls: TlsOptions): TlsContent {
  const key = readPem(tls.keyFile);
  const cert = readPem(tls.certFile);
  const content =
    tls.clientRootFile === '' ? { key, cert } : { key, cert, ca: readPem(tls.clientRootFile) };
  try {
    createSecureContext(content);
  } catch (cause) {
    throw invalidArg(
      `cannot serve HTTPS with key ${tls.keyFile} and certificate ${tls.certFile}: ${messageOf(cause)}`,
      cause,
    );
  }
  return content;
}

function readPem(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw invalidArg(`cannot read ${file} for HTTPS: ${messageOf(cause)}`, cause);
  }
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
