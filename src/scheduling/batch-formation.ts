import type { QueuedRequest } from './request-list.js';
import type { BatchSizeOptions } from './scheduling-options.js';

/*
 * Which of the waiting requests run now. The queue is read from its head, in the order in which it
 * would be served, and never past a request that does not fit: order within a level holds and no
 * odd request starves.
 *
 *   what the head of the queue holds            | delay 0            | delay, not yet over | delay over
 *   --------------------------------------------+--------------------+---------------------+-----------
 *   nothing                                     | wait               | wait                | -
 *   rows of a preferred size, or more           | largest preferred  | largest preferred   | all that fit
 *   adding the next one would pass the largest  | up to there        | up to there         | all that fit
 *   preferred size, and none was hit            |                    |                     |
 *   the next one differs in key, or would pass  | all before it      | all before it       | all before it
 *   the maximum, and no preferred size was hit  |                    |                     |
 *   rows >= largest preferred size (one big     | all                | all                 | all
 *   request)                                    |                    |                     |
 *   anything else                               | all                | wait for the delay  | all
 *
 * The delay counts from the arrival of the oldest request that would be in the batch.
 */

/** Waiting requests in the order of service. */
export interface QueueView {
  first(): QueuedRequest | undefined;
  after(entry: QueuedRequest): QueuedRequest | undefined;
}

export interface BatchDecision {
  /** How many requests from the head run now; 0 is none. */
  readonly requests: number;
  /** With 0 requests: when to look again if nothing changes before; Infinity is never. */
  readonly waitUntilNs: number;
}

/** Pure: decides from the queue, the options and the time alone. */
export function formBatch(
  queue: QueueView,
  options: BatchSizeOptions,
  nowNs: number,
): BatchDecision {
  const { batchSizeMax, preferredBatchSizes, queueDelayNs } = options;
  const largestPreferred = preferredBatchSizes[preferredBatchSizes.length - 1] ?? batchSizeMax;
  let rows = 0;
  let requests = 0;
  let requestsAtPreferred = 0;
  let oldestNs = Number.POSITIVE_INFINITY;
  let batchKey = '';
  let canGrow = true;
  for (let entry = queue.first(); entry !== undefined; entry = queue.after(entry)) {
    const rowsWithIt = rows + entry.pending.rows;
    if (requests === 0) {
      batchKey = entry.batchKey;
    } else {
      if (rowsWithIt > largestPreferred && requestsAtPreferred === 0) {
        requestsAtPreferred = requests;
      }
      if (rowsWithIt > batchSizeMax || entry.batchKey !== batchKey) {
        canGrow = false;
        break;
      }
    }
    rows = rowsWithIt;
    requests += 1;
    if (entry.enqueuedNs < oldestNs) oldestNs = entry.enqueuedNs;
    if (preferredBatchSizes.includes(rows)) requestsAtPreferred = requests;
    if (rows >= batchSizeMax) break;
  }
  if (requests === 0) return { requests: 0, waitUntilNs: Number.POSITIVE_INFINITY };
  const waitUntilNs = oldestNs + queueDelayNs;
  const isDelayOver = queueDelayNs > 0 && nowNs >= waitUntilNs;
  if (requestsAtPreferred > 0 && !isDelayOver) {
    return { requests: requestsAtPreferred, waitUntilNs };
  }
  const isComplete = !canGrow || rows >= largestPreferred;
  if (isComplete || isDelayOver || queueDelayNs === 0) return { requests, waitUntilNs };
  return { requests: 0, waitUntilNs };
}
