import { invalidArg } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { openNodeTransport } from './node-transport.js';
import type { ExchangeHandler, Transport, TransportOptions } from './transport.js';
import { loadUws, openUwsTransport } from './uws-transport.js';

/** `auto` is uWebSockets.js where it can be loaded, and Node's own HTTP elsewhere. */
export type TransportChoice = 'auto' | 'uws' | 'node';

export async function openTransport(
  choice: TransportChoice,
  options: TransportOptions,
  handler: ExchangeHandler,
  logger: Logger,
): Promise<Transport> {
  if (choice === 'node') return openNodeTransport(options, handler);
  if (choice === 'auto' && asksForCertificates(options)) {
    logger.info('HTTP is carried by node:http: uWebSockets.js does not ask for certificates');
    return openNodeTransport(options, handler);
  }
  if (asksForCertificates(options)) {
    throw invalidArg(
      "uWebSockets.js does not ask clients for certificates: use '--http-transport=node'",
    );
  }
  let uws: Awaited<ReturnType<typeof loadUws>>;
  try {
    uws = await loadUws();
  } catch (thrown) {
    if (choice === 'uws') throw thrown;
    logger.warning(describeFallback(thrown, process.version, runningGlibc()));
    return openNodeTransport(options, handler);
  }
  return openUwsTransport(uws, options, handler);
}

function asksForCertificates({ tls }: TransportOptions): boolean {
  return tls !== undefined && tls.clientRootFile !== '';
}

/** What a user must know, and can do, when the native library does not load. */
export function describeFallback(
  thrown: unknown,
  nodeVersion: string,
  glibc: string | undefined,
): string {
  const text = thrown instanceof Error ? thrown.message : String(thrown);
  const needed = /GLIBC_([0-9.]+)/.exec(text)?.[1];
  const found = glibc === undefined ? 'no glibc found' : `glibc ${glibc} found`;
  const need = needed === undefined ? 'no binary for them' : `glibc ${needed} needed`;
  return `uWebSockets.js cannot be loaded (Node ${nodeVersion}, ${found}, ${need}): HTTP is carried by node:http, which takes about three times the CPU time per small request`;
}

/** Version of the C library of this process; undefined on systems with another one. */
function runningGlibc(): string | undefined {
  const report: unknown = process.report?.getReport();
  if (typeof report !== 'object' || report === null || !('header' in report)) return undefined;
  const { header } = report;
  if (typeof header !== 'object' || header === null) return undefined;
  return 'glibcVersionRuntime' in header && typeof header.glibcVersionRuntime === 'string'
    ? header.glibcVersionRuntime
    : undefined;
}
