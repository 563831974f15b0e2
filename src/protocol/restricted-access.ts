import { createHash, timingSafeEqual } from 'node:crypto';
import type { HeaderSource } from './forwarded-headers.js';

/** Groups of endpoints that an operator may put behind a header. */
export const restrictedCategories = [
  'health',
  'metadata',
  'inference',
  'shared-memory',
  'model-config',
  'model-repository',
  'statistics',
  'trace',
  'logging',
] as const;

/** A group of endpoints that can be closed together. */
export type RestrictedCategory = (typeof restrictedCategories)[number];

/** The header that opens a group, and its value. */
export interface Restriction {
  readonly header: string;
  readonly value: string;
}

/** The groups that are closed. */
export type Restrictions = ReadonlyMap<RestrictedCategory, Restriction>;

interface Lock {
  readonly header: string;
  readonly lowerCaseHeader: string;
  readonly digest: Buffer;
}

/** Lets requests to a restricted group pass that bring its header. */
export class RestrictedAccess {
  readonly #locks = new Map<RestrictedCategory, Lock>();

  /** `headerPrefix` comes before the name of every header. */
  constructor(restrictions: Restrictions, headerPrefix: string) {
    for (const [category, { header: name, value }] of restrictions) {
      const header = headerPrefix + name;
      const lowerCaseHeader = header.toLowerCase();
      this.#locks.set(category, { header, lowerCaseHeader, digest: digestOf(value) });
    }
  }

  /** Name of the header that is missing or wrong; undefined where the request may pass. */
  missingHeader(
    headers: HeaderSource,
    category: RestrictedCategory | undefined,
  ): string | undefined {
    const lock = category === undefined ? undefined : this.#locks.get(category);
    if (lock === undefined) return undefined;
    let isSent = false;
    let isRight = true;
    headers.visitHeaders((name, value) => {
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
