import { createHash, timingSafeEqual } from 'node:crypto';
import { type InferenceServerError, unavailable } from '../errors.js';

/** Groups of calls that an operator may put behind a header. */
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

/** The key of the header that opens a group, and its value. */
export interface Restriction {
  readonly header: string;
  readonly value: string;
}

export type Restrictions = ReadonlyMap<RestrictedCategory, Restriction>;

/** Request metadata: all values of a key in lower case; `-bin` keys have bytes. */
export interface CallMetadata {
  get(key: string): readonly (string | Buffer)[];
  /** The first value of each key. */
  getMap(): { readonly [key: string]: string | Buffer };
}

interface Lock {
  readonly header: string;
  readonly digest: Buffer;
}

/** On gRPC, unlike HTTP, the header's name gets this in front. */
const headerPrefix = 'triton-grpc-protocol-';

export class RestrictedProtocols {
  readonly #locks = new Map<RestrictedCategory, Lock>();

  constructor(restrictions: Restrictions) {
    for (const [category, { header, value }] of restrictions) {
      this.#locks.set(category, { header: headerPrefix + header, digest: digestOf(value) });
    }
  }

  /** Why the call may not pass; undefined where it may. */
  refuse(
    metadata: CallMetadata,
    category: RestrictedCategory | undefined,
  ): InferenceServerError | undefined {
    const lock = category === undefined ? undefined : this.#locks.get(category);
    if (lock === undefined) return undefined;
    const values = metadata.get(lock.header.toLowerCase());
    // Every one must be right: which of them a proxy had checked is not known here.
    const isRight =
      values.length > 0 && values.every((value) => timingSafeEqual(digestOf(value), lock.digest));
    if (isRight) return undefined;
    return unavailable(`This protocol is restricted, expecting header '${lock.header}'`);
  }
}

/** Equal lengths, so that comparing takes the same time for every value. */
function digestOf(value: string | Buffer): Buffer {
  return createHash('sha256').update(value).digest();
}
