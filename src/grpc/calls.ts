import type { HeaderSource } from '../protocol/forwarded-headers.js';

/*
 * Calls as the handlers see them, apart from what carries them. Messages are protobuf in its binary
 * form.
 */

/** A call of one request and one response. Exactly one of `reply` and `fail` is called. */
export interface UnaryCall {
  /** Belongs to the handler. */
  readonly message: Uint8Array;
  readonly headers: HeaderSource;
  reply(message: Uint8Array): void;
  fail(thrown: unknown): void;
  /** Runs `callback` when the client gives up or its deadline passes. */
  onCancel(callback: () => void): void;
}

/** A call of any number of messages in both directions. */
export interface StreamCall {
  readonly headers: HeaderSource;
  /**
   * Sends a message, in the order of the calls. `onSent` runs when it left the process's memory,
   * and not at all for a call that has been cancelled.
   */
  send(message: Uint8Array, onSent: () => void): void;
  /** Ends the call well, after what was sent. */
  end(): void;
  /** Ends the call with a status, after what was sent. */
  fail(thrown: unknown): void;
  /** Holds back the next messages of the client. */
  pauseReading(): void;
  resumeReading(): void;
}

/** What happens on a {@link StreamCall}. Nothing follows `onCancel`. */
export interface StreamHandler {
  onMessage(message: Uint8Array): void;
  /** The client sends no more. */
  onHalfClose(): void;
  /** The client gave up, or the deadline passed. */
  onCancel(): void;
  /** The server is going to end: finish what was begun, then end the call. */
  onDrain(): void;
}

export type UnaryMethod = (call: UnaryCall) => void;
export type StreamMethod = (call: StreamCall) => StreamHandler;
