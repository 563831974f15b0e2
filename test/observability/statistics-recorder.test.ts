import { describe, expect, it } from 'vitest';
import type { RequestTiming } from '../../src/inference/request-timing.js';
import {
  ModelStatisticsRecorder,
  responseIndexMax,
} from '../../src/observability/statistics-recorder.js';
import { FakeClock } from '../support/fake-clock.js';

/**
 * Ended 7 ms after the start of the clock. Queue 10, input 20, infer 40, output 80, and 5 from the
 * end of compute to the end.
 */
const timing: RequestTiming = {
  requestStartNs: 7_001_000,
  queueStartNs: 7_001_000,
  computeStartNs: 7_001_010,
  computeInputEndNs: 7_001_030,
  computeOutputStartNs: 7_001_070,
  computeEndNs: 7_001_150,
  requestEndNs: 7_001_155,
};

function createRecorder(isSummarized = false): ModelStatisticsRecorder {
  return new ModelStatisticsRecorder('m', '1', new FakeClock(9e6), { isSummarized });
}

const none = { count: 0, ns: 0 };

describe('ModelStatisticsRecorder', () => {
  it('begins at zero', () => {
    expect(createRecorder().snapshot()).toEqual({
      name: 'm',
      version: '1',
      lastInferenceMs: 0,
      inferenceCount: 0,
      executionCount: 0,
      inference: {
        success: none,
        fail: none,
        queue: none,
        compute_input: none,
        compute_infer: none,
        compute_output: none,
        cache_hit: none,
        cache_miss: none,
      },
      responses: new Map(),
      batches: [],
    });
  });

  it('charges each request of a batch the whole batch, and counts its own rows', () => {
    const recorder = createRecorder();
    recorder.requestEnded(timing, 'SUCCESS', 3);
    recorder.requestEnded(timing, 'SUCCESS', 1);
    recorder.executed(4, [1010, 1030, 1070, 1150]);
    const snapshot = recorder.snapshot();
    expect(snapshot).toMatchObject({ inferenceCount: 4, executionCount: 1, lastInferenceMs: 7 });
    expect(snapshot.inference).toMatchObject({
      success: { count: 2, ns: 310 },
      fail: none,
      queue: { count: 2, ns: 20 },
      compute_input: { count: 2, ns: 40 },
      compute_infer: { count: 2, ns: 80 },
      compute_output: { count: 2, ns: 160 },
    });
    expect(snapshot.batches).toEqual([
      {
        batchSize: 4,
        computeInput: { count: 1, ns: 20 },
        computeInfer: { count: 1, ns: 40 },
        computeOutput: { count: 1, ns: 80 },
      },
    ]);
  });

  it('lists batch sizes in ascending order', () => {
    const recorder = createRecorder();
    for (const rows of [8, 1, 4, 1]) recorder.executed(rows, [1, 2, 3, 4]);
    const { batches } = recorder.snapshot();
    expect(batches.map(({ batchSize, computeInfer }) => [batchSize, computeInfer.count])).toEqual([
      [1, 2],
      [4, 1],
      [8, 1],
    ]);
  });

  it('counts a cache hit as a success and as a wait, but not as an inference', () => {
    const recorder = createRecorder();
    recorder.cacheHit(50);
    recorder.requestEnded({ ...timing, computeStartNs: 0 }, 'CACHE_HIT', 3);
    recorder.cacheMiss(70);
    const { inferenceCount, inference } = recorder.snapshot();
    expect(inferenceCount).toBe(0);
    expect(inference).toMatchObject({
      success: { count: 1, ns: 155 },
      queue: { count: 1 },
      compute_infer: none,
      cache_hit: { count: 1, ns: 50 },
      cache_miss: { count: 1, ns: 70 },
    });
  });

  it.each(['REJECTED', 'CANCELED', 'BACKEND', 'OTHER'] as const)(
    'counts %s as a failure with its reason, and nothing else',
    (outcome) => {
      const recorder = createRecorder();
      recorder.requestEnded({ ...timing, computeStartNs: 0 }, outcome, 3);
      const { inferenceCount, inference, lastInferenceMs } = recorder.snapshot();
      expect(inference.fail).toEqual({ count: 1, ns: 155 });
      expect(inference.success).toEqual(none);
      expect(inference.queue).toEqual(none);
      expect(inferenceCount).toBe(0);
      expect(lastInferenceMs).toBe(7);
      expect(recorder.failures).toEqual({
        REJECTED: 0,
        CANCELED: 0,
        BACKEND: 0,
        OTHER: 0,
        [outcome]: 1,
      });
    },
  );

  it('counts what was refused at the door apart from everything else', () => {
    const recorder = createRecorder();
    const before = recorder.snapshot();
    recorder.requestEnded(timing, 'REFUSED', 1);
    expect(recorder.snapshot()).toEqual(before);
    expect(recorder.refusedRequests).toBe(1);
  });

  it('never takes a stamp that was not set for the time since boot', () => {
    const recorder = createRecorder();
    recorder.requestEnded(
      { ...timing, computeInputEndNs: 0, computeOutputStartNs: 0 },
      'SUCCESS',
      1,
    );
    expect(recorder.snapshot().inference.compute_infer.ns).toBe(1);
  });

  it('keeps the responses of a decoupled request apart by their index', () => {
    const recorder = createRecorder();
    recorder.responded({ index: 0, kind: 'success', computeInferNs: 30, computeOutputNs: 5 });
    recorder.responded({ index: 2, kind: 'fail', computeInferNs: 10, computeOutputNs: 1 });
    recorder.responded({ index: 2, kind: 'empty_response', computeInferNs: 7, computeOutputNs: 0 });
    recorder.responded({ index: 2, kind: 'cancel', computeInferNs: 3, computeOutputNs: 0 });
    const { responses } = recorder.snapshot();
    expect([...responses.keys()]).toEqual(['0', '1', '2']);
    expect(responses.get('0')).toEqual({
      compute_infer: { count: 1, ns: 30 },
      compute_output: { count: 1, ns: 5 },
      success: { count: 1, ns: 35 },
      fail: none,
      empty_response: none,
      cancel: none,
    });
    expect(responses.get('2')).toEqual({
      compute_infer: { count: 2, ns: 17 },
      compute_output: { count: 1, ns: 1 },
      success: none,
      fail: { count: 1, ns: 11 },
      empty_response: { count: 1, ns: 7 },
      cancel: { count: 1, ns: 3 },
    });
  });

  it('does not grow without end with an endless stream', () => {
    const recorder = createRecorder();
    const response = { kind: 'success', computeInferNs: 1, computeOutputNs: 1 } as const;
    for (const index of [responseIndexMax, responseIndexMax + 1, 1e9]) {
      recorder.responded({ index, ...response });
    }
    const { responses } = recorder.snapshot();
    expect(responses.size).toBe(responseIndexMax + 1);
    expect(responses.get(String(responseIndexMax))?.success.count).toBe(3);
  });

  it('hands out snapshots that later requests leave as they are', () => {
    const recorder = createRecorder();
    recorder.executed(1, [1, 2, 3, 4]);
    recorder.responded({ index: 0, kind: 'success', computeInferNs: 1, computeOutputNs: 1 });
    const snapshot = recorder.snapshot();
    const copy = structuredClone(snapshot);
    recorder.requestEnded(timing, 'SUCCESS', 1);
    recorder.executed(1, [1, 2, 3, 4]);
    recorder.responded({ index: 0, kind: 'success', computeInferNs: 1, computeOutputNs: 1 });
    expect(snapshot).toEqual(copy);
  });

  it('keeps the latest durations only where summaries are on', () => {
    expect(createRecorder().windows).toBeUndefined();
    const recorder = createRecorder(true);
    recorder.requestEnded(timing, 'SUCCESS', 1);
    recorder.cacheHit(9);
    expect(recorder.windows?.request.quantiles([0.5])).toEqual([155]);
    expect(recorder.windows?.compute_output.quantiles([0.5])).toEqual([80]);
    expect(recorder.windows?.cache_hit.quantiles([0.5])).toEqual([9]);
  });
});
