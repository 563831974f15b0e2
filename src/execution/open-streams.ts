import type { ErrorMessage } from './messages.js';
import type { ExecuteReply, ResponseNotice, StreamListener } from './model-instances.js';

interface OpenExecution {
  readonly listener: StreamListener;
  /** Requests whose final notice has come. */
  ended: number;
  /** Requests that were answered by notices; unknown until the reply. */
  streamed: number | undefined;
}

/**
 * The executions of one instance whose requests may still be answered around the reply. Notices and
 * replies come on two channels, in any order: an execution is over when its reply has come and
 * every request that the reply calls `streamed` has had its final notice.
 */
export class OpenStreams {
  readonly #open = new Map<number, OpenExecution>();
  readonly #onEnd: (executionId: number) => void;

  /** `onEnd` hears of every execution that was opened, once, when nothing more comes for it. */
  constructor(onEnd: (executionId: number) => void) {
    this.#onEnd = onEnd;
  }

  get size(): number {
    return this.#open.size;
  }

  open(executionId: number, listener: StreamListener): void {
    this.#open.set(executionId, { listener, ended: 0, streamed: undefined });
  }

  answered(executionId: number, reply: ExecuteReply): void {
    const execution = this.#open.get(executionId);
    if (execution === undefined) return;
    const results = reply.type === 'executed-requests' ? reply.results : [];
    execution.streamed = results.filter((result) => result.type === 'streamed').length;
    this.#closeWhenOver(executionId, execution);
  }

  respond(notice: ResponseNotice): void {
    const execution = this.#open.get(notice.executionId);
    if (execution === undefined) return;
    if (notice.isFinal) execution.ended += 1;
    execution.listener.onResponse(notice);
    this.#closeWhenOver(notice.executionId, execution);
  }

  close(executionId: number): void {
    if (this.#open.delete(executionId)) this.#onEnd(executionId);
  }

  /** The thread is gone: nothing more comes for anybody. */
  lose(error: ErrorMessage): void {
    const executions = [...this.#open];
    this.#open.clear();
    for (const [executionId, execution] of executions) {
      execution.listener.onLost(error);
      this.#onEnd(executionId);
    }
  }

  #closeWhenOver(executionId: number, execution: OpenExecution): void {
    if (execution.streamed !== undefined && execution.ended >= execution.streamed) {
      this.close(executionId);
    }
  }
}
