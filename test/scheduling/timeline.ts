import type { InferenceServerError } from '../../src/errors.js';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import type { Tensor } from '../../src/inference/tensor.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import type { Scheduler } from '../../src/scheduling/scheduler.js';
import type { FakeClock } from '../support/fake-clock.js';
import type { FakeExecutor } from '../support/fake-executor.js';
import { int32Tensor, type ObservedRequest, observedRequest } from '../support/pending-requests.js';

/*
 * Scheduler cases as text. Events, each at a time in milliseconds:
 *
 *   '0 send a b*3 c^2'   requests arrive in this order
 *   '5 done' '5 done 1'  the oldest running batch (or the one with this index) is answered
 *   '5 crash 1'          … fails
 *   '5 return 1'         … is given back
 *   '5 again 1'          … is handed back to be run once more
 *   '7 cancel b'         the client of b goes away
 *   '7 pause b'          … reads no more; '8 resume b'
 *   '9 drain' '9 destroy'
 *   '20'                 nothing happens, time passes
 *
 * A request is a name and what is special about it:
 *   a*3 three rows · a[5] inner shape of input X · a+opt has the optional input `opt` too
 *   a^2 priority 2 · a~50 timeout of 50 ms
 *   a@7 of sequence 7 · a@'7 of the sequence with the text id · a@7( first · a@7) last
 *
 * What happens is written in the same way:
 *   '0 run a b' · '10 timeout c' · '0 full d' · '7 cancelled b' · '5 failed a: INTERNAL text'
 *   '0 refused e: INVALID_ARG text' · '5 answer a' (only where `showsAnswers`)
 */

export interface Harness {
  readonly clock: FakeClock;
  /** One, or one for each instance. */
  readonly executors: readonly FakeExecutor[];
  readonly scheduler: Scheduler;
  /** Runs looks that were put off until the arrivals of one moment are in. */
  readonly flushLooks: () => void;
  readonly showsAnswers: boolean;
  /** How a batch reads in the timeline; `executor` is the index of the one that runs it. */
  readonly describeBatch: (batch: readonly PendingRequest[], executor: number) => string;
}

/** Events and happenings are separated by `; `. */
export function lines(text: string): string[] {
  return text === '' ? [] : text.split('; ');
}

export function namesOf(batch: readonly PendingRequest[]): string {
  return batch.map(({ request }) => request.id).join(' ');
}

/** Plays `events` and returns what happened, in order. */
export function play(harness: Harness, events: string): string[] {
  const { clock, executors, scheduler } = harness;
  const startNs = clock.nowNs();
  const happened: string[] = [];
  const requests = new Map<string, ObservedRequest>();
  const note = (text: string): void => {
    happened.push(`${(clock.nowNs() - startNs) / 1e6} ${text}`);
  };
  const batches: RunningBatch[] = [];
  clock.afterTimer = harness.flushLooks;
  for (const [index, executor] of executors.entries()) {
    executor.onBatch = (batch) => {
      batches.push({ executor, index: executor.batches.length - 1 });
      note(`run ${harness.describeBatch(batch, index)}`);
    };
  }
  const onEnd = (observed: ObservedRequest): void => {
    const text = describeEnd(observed);
    if (text !== undefined) note(text);
    else if (harness.showsAnswers) note(`answer ${observed.pending.request.id}`);
  };
  const send = (token: string): void => {
    const { fields, rows } = parseRequest(token);
    const observed = observedRequest(fields, rows, onEnd);
    requests.set(observed.pending.request.id, observed);
    try {
      scheduler.enqueue(observed.pending);
    } catch (error) {
      note(describeRefusal(observed.pending.request.id, error as InferenceServerError));
    }
  };
  for (const event of lines(events)) {
    const [at = '0', verb = '', ...names] = event.split(' ');
    clock.advance(startNs + Number(at) * 1e6 - clock.nowNs());
    if (verb === 'send') for (const token of names) send(token);
    else if (verb === 'done') batchAt(batches, names[0], (one) => one.executor.complete(one.index));
    else if (verb === 'return')
      batchAt(batches, names[0], (one) => one.executor.giveBack(one.index));
    else if (verb === 'crash') batchAt(batches, names[0], (one) => one.executor.fail(one.index));
    else if (verb === 'again') {
      batchAt(batches, names[0], (one) => one.executor.reschedule(one.index));
    } else if (verb === 'pause') for (const name of names) requests.get(name)?.pending.pause();
    else if (verb === 'resume') for (const name of names) requests.get(name)?.pending.resume();
    else if (verb === 'cancel') for (const name of names) requests.get(name)?.pending.cancel();
    else if (verb === 'drain') void scheduler.drain();
    else if (verb === 'destroy') scheduler.destroy();
    else if (verb !== '') throw new Error(`unknown event '${event}'`);
    harness.flushLooks();
  }
  return happened;
}

interface RunningBatch {
  readonly executor: FakeExecutor;
  readonly index: number;
}

/** Ends the oldest running batch, or the one with the index that the event names. */
function batchAt(
  batches: readonly RunningBatch[],
  named: string | undefined,
  end: (batch: RunningBatch) => void,
): void {
  const isRunning = ({ executor, index }: RunningBatch) => executor.runningBatches.includes(index);
  const batch = named === undefined ? batches.find(isRunning) : batches[Number(named)];
  if (batch === undefined) throw new Error('no batch is running');
  end(batch);
}

function describeEnd({ pending, end }: ObservedRequest): string | undefined {
  const { id } = pending.request;
  if (end?.error === undefined) return undefined;
  const { code, message } = end.error;
  if (end.outcome === 'REJECTED' && message === 'Request timeout expired') return `timeout ${id}`;
  if (end.outcome === 'CANCELED') return `cancelled ${id}`;
  return `failed ${id}: ${code} ${message}`;
}

function describeRefusal(id: string, { code, message }: InferenceServerError): string {
  if (code === 'UNAVAILABLE' && message === `[request id: ${id}] Exceeds maximum queue size`) {
    return `full ${id}`;
  }
  return `refused ${id}: ${code} ${message}`;
}

const requestPattern =
  /^(?<id>[a-z]\d*)(?:\*(?<rows>\d+))?(?:\[(?<shape>[\d,]+)\])?(?<optional>(?:\+[a-z]+)*)(?:\^(?<priority>\d+))?(?:~(?<timeout>\d+))?(?:@(?<text>')?(?<sequence>\w*)(?<start>\()?(?<end>\))?)?$/;

export function parseRequest(token: string): {
  readonly fields: Partial<InferenceRequest>;
  readonly rows: number;
} {
  const groups = requestPattern.exec(token)?.groups;
  if (groups === undefined) throw new Error(`'${token}' is not a request`);
  const { id = '', shape, optional = '', priority, timeout, sequence } = groups;
  const rows = Number(groups['rows'] ?? 1);
  const innerShape = (shape ?? '1').split(',').map(Number);
  const inputs: Tensor[] = [];
  for (const name of ['X', ...optional.split('+').filter((part) => part !== '')]) {
    const elements = rows * innerShape.reduce((product, dim) => product * dim, 1);
    inputs.push(int32Tensor(name, [rows, ...innerShape], new Array<number>(elements).fill(0)));
  }
  return {
    rows,
    fields: {
      id,
      inputs,
      priority: Number(priority ?? 0),
      timeoutUs: Number(timeout ?? 0) * 1000,
      sequence:
        sequence === undefined
          ? undefined
          : {
              correlationId: groups['text'] === undefined ? BigInt(sequence) : sequence,
              start: groups['start'] !== undefined,
              end: groups['end'] !== undefined,
            },
    },
  };
}
