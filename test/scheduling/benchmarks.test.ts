import { expect, it } from 'vitest';
import { measureDynamicBatcher } from '../../bench/micro/scheduling/dynamic-batcher.bench.js';
import {
  measureCacheHit,
  measureEnsembleStep,
} from '../../bench/micro/scheduling/ensemble-and-cache.bench.js';

it.each([
  ['without timeouts', 0],
  ['with a timeout each', 1_000_000],
])('the dynamic batcher benchmark settles every request, %s', (_, timeoutUs) => {
  const { requests, batches, nsPerRequest } = measureDynamicBatcher(10, timeoutUs);
  expect(requests).toBe(160);
  expect(batches).toBeGreaterThanOrEqual(10);
  expect(nsPerRequest).toBeGreaterThan(0);
});

it('the ensemble and cache benchmarks check their own answers', () => {
  expect(measureEnsembleStep(3, 10)).toBeGreaterThan(0);
  expect(measureCacheHit(10)).toBeGreaterThan(0);
});
