import type { InferenceServerError } from '../errors.js';
import type { InferenceResponse } from '../inference/infer-response.js';
import type { PendingRequest } from './pending-request.js';
import { type FailureOutcome, relayRequest } from './relayed-request.js';

type End =
  | { readonly kind: 'open' }
  | { readonly kind: 'completed' }
  /** It comes back as a new request, with a new turn. */
  | { readonly kind: 'rescheduled' }
  | {
      readonly kind: 'failed';
      readonly error: InferenceServerError;
      readonly outcome: FailureOutcome;
    };

interface Turn {
  readonly origin: PendingRequest;
  readonly held: InferenceResponse[];
  end: End;
}

/**
 * Lets answers out in the order in which requests were handed over (`preserve_ordering`), while
 * executions overtake one another.
 *
 * ```
 *   turns:  [0] answers pass at once   [1] held   [2] held, ended   …
 *   when [0] ends, [1] lets out what it holds and passes from then on, and so forth
 * ```
 */
export class AnswerOrder {
  readonly #turns: Turn[] = [];

  /** The request to run in the place of `origin`. */
  follow(origin: PendingRequest): PendingRequest {
    const turn: Turn = { origin, held: [], end: { kind: 'open' } };
    this.#turns.push(turn);
    const followed = relayRequest(origin, origin.request, origin.modelInputs, {
      respond: (response) => {
        if (this.#turns[0] === turn) origin.respond(response);
        else turn.held.push(response);
      },
      complete: () => this.#end(turn, { kind: 'completed' }),
      fail: (error, outcome) => this.#end(turn, { kind: 'failed', error, outcome }),
    });
    if (origin.onReschedule !== undefined) {
      followed.onReschedule = () => this.#end(turn, { kind: 'rescheduled' });
    }
    return followed;
  }

  #end(ended: Turn, end: End): void {
    ended.end = end;
    for (let turn = this.#turns[0]; turn !== undefined; turn = this.#turns[0]) {
      for (const response of turn.held.splice(0)) turn.origin.respond(response);
      if (turn.end.kind === 'open') return;
      this.#turns.shift();
      settle(turn.origin, turn.end);
    }
  }
}

function settle(origin: PendingRequest, end: Exclude<End, { kind: 'open' }>): void {
  switch (end.kind) {
    case 'completed':
      origin.complete();
      return;
    case 'rescheduled':
      origin.reschedule();
      return;
    case 'failed':
      origin.fail(end.error, end.outcome);
      return;
  }
}
