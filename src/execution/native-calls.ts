/** Longest time for which the end of the process is held up by native calls under way. */
const exitWaitMsMax = 10_000;

/** Calls that a thread has before it, 0 when it is outside native code; the thread counts down. */
export type NativeCallFlag = Int32Array<SharedArrayBuffer>;

/**
 * Keeps the process from ending in the middle of a native call: Node ends all threads at exit, and
 * a thread that is ended inside of onnxruntime-node aborts the process, whatever its exit code was
 * to be. There is one of it because the process has one end.
 */
export class NativeCalls {
  static #shared: NativeCalls | undefined;
  readonly #flags = new Set<NativeCallFlag>();

  /** The process's own; its first user makes it listen to the process's end. */
  static shared(): NativeCalls {
    if (NativeCalls.#shared === undefined) {
      const calls = new NativeCalls();
      process.once('exit', () => calls.wait(exitWaitMsMax));
      NativeCalls.#shared = calls;
    }
    return NativeCalls.#shared;
  }

  /** A flag for one thread; {@link forget} it when the thread has ended. */
  newFlag(): NativeCallFlag {
    const flag = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
    this.#flags.add(flag);
    return flag;
  }

  forget(flag: NativeCallFlag): void {
    this.#flags.delete(flag);
  }

  /** Blocks until every thread is outside, or `limitMs` have passed. */
  wait(limitMs: number): void {
    const endMs = Date.now() + limitMs;
    for (const flag of this.#flags) {
      for (let calls = Atomics.load(flag, 0); calls > 0; calls = Atomics.load(flag, 0)) {
        const outcome = Atomics.wait(flag, 0, calls, Math.max(0, endMs - Date.now()));
        if (outcome === 'timed-out') break;
      }
    }
  }
}

/** Counts one call more; before the thread can hear of it. */
export function enterNativeCall(flag: NativeCallFlag | undefined): void {
  if (flag !== undefined) Atomics.add(flag, 0, 1);
}

export function leaveNativeCall(flag: NativeCallFlag | undefined): void {
  if (flag === undefined) return;
  Atomics.sub(flag, 0, 1);
  Atomics.notify(flag, 0);
}

/** For a thread that is gone, whatever it had before it. */
export function forgetNativeCalls(flag: NativeCallFlag | undefined): void {
  if (flag === undefined) return;
  Atomics.store(flag, 0, 0);
  Atomics.notify(flag, 0);
}
