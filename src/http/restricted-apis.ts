import { createHash, timingSafeEqual } from 'node:crypto';
import type { Exchange } from './transport.js';

/** Groups of routes that an operator may put behind a header. */
export type RestrictedCategory =
  | 'health'
  | 'metadata'
  | 'inference'
  | 'shared-memory'
  | 'model-config'
  | 'model-repository'
  | 'statistics'
  | 'trace'
  | 'logging';

/** The header that opens a group, and its value. */
export interface Restriction {
  readonly header: string;
  readonly value: string;
}

export type Restrictions = ReadonlyMap<RestrictedCategory, Restriction>;

interface Lock {
  readonly header: string;
  readonly lowerCaseHeader: string;
  readonly digest: Buffer;
}

export class RestrictedApis {
  readonly #locks: ReadonlyMap<RestrictedCategory, Lock>;

  constructor(restrictions: Restrictions) {
    const locks = new Map<RestrictedCategory, Lock>();
    for (const [category, { header, value }] of restrictions) {
      const lowerCaseHeader = header.toLowerCase();
      locks.set(category, { header, lowerCaseHeader, digest: digestOf(value) });
    }
    this.#locks = locks;
  }

  /** Name of the header that is missing or wrong; undefined where the request may pass. */
  missingHeader(exchange: Exchange, category: RestrictedCategory | undefined): string | undefined {
    if (this.#locks.size === 0 || category === undefined) return undefined;
    const lock = this.#locks.get(category);
    if (lock === undefined) return undefined;
    let isSent = false;
    let isRight = true;
    exchange.visitHeaders((name, value) => {
      if (name !== lock.lowerCaseHeader) return;
      isSent = true;
      // Every line of the header must be right: which one a proxy had checked is not known here.
      if (!timingSafeEqual(digestOf(value), lock.digest)) isRight = false;
    });
    return isSent && isRight ? undefined : lock.header;
  }
}

/** Equal lengths, so that comparing takes the same time for every value. */
function digestOf(value: string): Buffer {
  return createHash('sha256').update(value).digest();
}
