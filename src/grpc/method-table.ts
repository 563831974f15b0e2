import type { InferenceServerError } from '../errors.js';
import type { StreamCall, StreamMethod, UnaryMethod } from './calls.js';
import type { Method } from './carrier.js';
import type { RestrictedCategory, RestrictedProtocols } from './restricted-protocols.js';

/** A method that answers a message by a message, at once or later. */
export type ControlMethod = (message: Uint8Array) => Uint8Array | Promise<Uint8Array>;

/** Methods by their path, each behind the header that its category may be restricted to. */
export class MethodTable {
  readonly methods = new Map<string, Method>();
  readonly #restricted: RestrictedProtocols;

  constructor(restricted: RestrictedProtocols) {
    this.#restricted = restricted;
  }

  /** A method that answers when it likes, with a message that may be large. */
  unary(path: string, category: RestrictedCategory, run: UnaryMethod): void {
    this.methods.set(path, {
      type: 'unary',
      isCompressed: true,
      run: (call) => {
        const refusal = this.#restricted.refuse(call.metadata, category);
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
        const refusal = this.#restricted.refuse(call.metadata, category);
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
        const refusal = this.#restricted.refuse(call.metadata, category);
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
      open: (call) => open(call, this.#restricted.refuse(call.metadata, 'inference')),
    });
  }
}
