import type { ComputeStamps, TextRequest } from '../execution/messages.js';
import type { ExecuteOutcome } from '../execution/model-instances.js';
import type { ModelCall } from '../inference/model-call.js';
import type { PendingRequest } from '../scheduling/pending-request.js';

/* What an executor must know of the requests of a batch together. */

const noCalls: readonly ModelCall[] = [];

export function rowsOf(batch: readonly PendingRequest[]): number {
  let rows = 0;
  for (const pending of batch) rows += pending.rows;
  return rows;
}

/** Models that call models are rare: nearly always nothing is made here. */
export function callsOf(batch: readonly PendingRequest[]): readonly ModelCall[] {
  if (!batch.some(({ request }) => request.call !== undefined)) return noCalls;
  return batch.flatMap(({ request: { call } }) => (call === undefined ? [] : [call]));
}

export function hasTextInput(pending: PendingRequest): boolean {
  return pending.modelInputs.some((input) => input.encoding === 'json');
}

/** Undefined where nobody in the batch wants text, which is nearly always. */
export function textRequests(batch: readonly PendingRequest[]): readonly TextRequest[] | undefined {
  if (!batch.some(({ request }) => request.prefersJsonText)) return undefined;
  return batch.map(({ rows, request }) => ({ rows, prefersJsonText: request.prefersJsonText }));
}

const noRequests: readonly PendingRequest[] = [];

/** Those that have to be executed by another task. */
export function unstartedOf(
  batch: readonly PendingRequest[],
  reply: ExecuteOutcome,
): readonly PendingRequest[] {
  if (reply.type === 'unstarted') return batch;
  if (reply.type !== 'executed-requests' || reply.eachStamps === undefined) return noRequests;
  return batch.filter((_, index) => reply.results[index]?.type === 'unstarted');
}

export function stampRequest({ timing }: PendingRequest, stamps: ComputeStamps): void {
  timing.computeStartNs = stamps[0];
  timing.computeInputEndNs = stamps[1];
  timing.computeOutputStartNs = stamps[2];
  timing.computeEndNs = stamps[3];
}
