import type { IncomingHttpHeaders } from 'node:http2';
import type { HeaderSource } from '../protocol/forwarded-headers.js';
import type { MessageEncoding } from './message-reader.js';

/** What the headers of a call say to the server itself. */
export interface CallTerms {
  /** Undefined where the client sets no deadline. */
  readonly timeoutMs: number | undefined;
  /** Undefined for one that the server does not know. */
  readonly encoding: MessageEncoding | undefined;
}

/** Milliseconds of each unit of `grpc-timeout`. */
const unitMs: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** Headers of the transport, which are nobody's parameters. */
const transportHeaders: ReadonlySet<string> = new Set([
  'accept-encoding',
  'content-type',
  'grpc-accept-encoding',
  'grpc-encoding',
  'grpc-timeout',
  'te',
]);

/** Reads what the server follows. Returns undefined for a `grpc-timeout` that is none. */
export function readCallTerms(headers: IncomingHttpHeaders): CallTerms | undefined {
  const encoding = readEncoding(headers['grpc-encoding']);
  const timeout = headers['grpc-timeout'];
  if (timeout === undefined) return { timeoutMs: undefined, encoding };
  const [, digits, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(String(timeout)) ?? [];
  const ms = unitMs[unit];
  return ms === undefined ? undefined : { timeoutMs: Number(digits) * ms, encoding };
}

/** Headers that a client chose to send; `-bin` ones hold bytes, not text, and are passed over. */
export function clientHeaders(headers: IncomingHttpHeaders): HeaderSource {
  return {
    visitHeaders(visit) {
      for (const [name, value] of Object.entries(headers)) {
        if (name.startsWith(':') || name.endsWith('-bin') || transportHeaders.has(name)) continue;
        if (value !== undefined) visit(name, String(value));
      }
    },
  };
}

function readEncoding(name: string | string[] | undefined): MessageEncoding | undefined {
  switch (name) {
    case undefined:
    case 'identity':
      return 'identity';
    case 'gzip':
    case 'deflate':
      return name;
    default:
      return undefined;
  }
}
