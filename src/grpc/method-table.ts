import { type InferenceServerError, unavailable } from '../errors.js';
import type { HeaderSource } from '../protocol/forwarded-headers.js';
import type { RestrictedAccess, RestrictedCategory } from '../protocol/restricted-access.js';
import type { StreamCall, StreamMethod, UnaryMethod } from './calls.js';
import type { Method } from './carrier.js';

/** A method that answers a message by a message, at once or later. */
export type ControlMethod = (message: Uint8Array) => Uint8Array | Promise<Uint8Array>;

/** Methods by their path, each behind the header that its category may be restricted to. */
export class MethodTable {
  readonly methods = new Map<string, Method>();
  readonly #restricted: RestrictedAccess;

  constructor(restricted: RestrictedAccess) {
    this.#restricted = restricted;
  }

  /** A method that answers when it likes, with a message that may be large. */
  unary(path: string, category: RestrictedCategory, run: UnaryMethod): void {
    this.methods.set(path, {
      type: 'unary',
      isCompressed: true,
      run: (call) => {
        const refusal = this.#refuse(call.headers, category);
        if (refusal !== undefined) throw refusal;
        run(call);
      },
    });
  }

  control(path: string, category: RestrictedCategory, answer: ControlMethod): void {
    this.methods.set(path, {
      type: 'unary',
      isCompressed: false,
      run: (call) => {
        const refusal = this.#refuse(call.headers, category);
        if (refusal !== undefined) throw refusal;
        const answered = answer(call.message);
        if (answered instanceof Uint8Array) call.reply(answered);
        else answered.then(call.reply, call.fail);
      },
    });
  }

  /** `category` undefined is open to everybody. */
  stream(path: string, category: RestrictedCategory | undefined, open: StreamMethod): void {
    this.methods.set(path, {
      type: 'stream',
      isCompressed: false,
      open: (call) => {
        const refusal = this.#refuse(call.headers, category);
        if (refusal !== undefined) throw refusal;
        return open(call);
      },
    });
  }

  /** A stream that tells its refusal in its own messages. */
  inferStream(
    path: string,
    open: (call: StreamCall, refusal: InferenceServerError | undefined) => ReturnType<StreamMethod>,
  ): void {
    this.methods.set(path, {
      type: 'stream',
      isCompressed: true,
      open: (call) => open(call, this.#refuse(call.headers, 'inference')),
    });
  }

  /** Why the call may not pass; undefined where it may. */
  #refuse(
    headers: HeaderSource,
    category: RestrictedCategory | undefined,
  ): InferenceServerError | undefined {
    const missing = this.#restricted.missingHeader(headers, category);
    if (missing === undefined) return undefined;
    return unavailable(`This protocol is restricted, expecting header '${missing}'`);
  }
}
