/**
 * The points in time of one request, nanoseconds of `Clock.nowNs`; 0 where a point was not reached.
 * Statistics, metrics and traces are all made from these stamps, once, when the request ends.
 * The four compute stamps are those of the batch: every request of it is charged the whole batch.
 */
export interface RequestTiming {
  requestStartNs: number;
  queueStartNs: number;
  computeStartNs: number;
  computeInputEndNs: number;
  computeOutputStartNs: number;
  computeEndNs: number;
  requestEndNs: number;
}

/** Stamps of a request that begins; those to come are 0. Nanoseconds of the injected clock. */
export function startTiming(requestStartNs: number): RequestTiming {
  return {
    requestStartNs,
    queueStartNs: 0,
    computeStartNs: 0,
    computeInputEndNs: 0,
    computeOutputStartNs: 0,
    computeEndNs: 0,
    requestEndNs: 0,
  };
}
