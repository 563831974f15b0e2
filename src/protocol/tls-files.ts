import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import { invalidArg } from '../errors.js';

/** Paths of PEM files. */
export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  /** '' does not ask clients for a certificate. */
  readonly clientRootFile: string;
}

/** What {@link TlsFiles} hold, in the shape of Node's TLS options. */
export interface TlsContent {
  readonly key: Buffer;
  readonly cert: Buffer;
  readonly ca?: Buffer;
}

/**
 * Reads key and certificates and checks that they fit together: uWebSockets.js says nothing but
 * that it failed. `service` is what messages call it: `HTTPS`. Throws INVALID_ARG.
 */
export function readTlsFiles(tls: TlsFiles, service: string): TlsContent {
  const key = readPem(tls.keyFile, service);
  const cert = readPem(tls.certFile, service);
  const content =
    tls.clientRootFile === ''
      ? { key, cert }
      : { key, cert, ca: readPem(tls.clientRootFile, service) };
  try {
    createSecureContext(content);
  } catch (cause) {
    throw invalidArg(
      `cannot serve ${service} with key ${tls.keyFile} and certificate ${tls.certFile}: ${messageOf(cause)}`,
      cause,
    );
  }
  return content;
}

function readPem(file: string, service: string): Buffer {
  try {
    return readFileSync(file);
  } catch (cause) {
    throw invalidArg(`cannot read ${file} for ${service}: ${messageOf(cause)}`, cause);
  }
}

function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
