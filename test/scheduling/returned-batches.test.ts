import { describe, expect, it } from 'vitest';
import { unavailable } from '../../src/errors.js';
import { ReturnedBatches } from '../../src/scheduling/returned-batches.js';
import { observedRequest } from '../support/pending-requests.js';

function setUp(...sizes: readonly number[]) {
  const returned = new ReturnedBatches();
  const batches = sizes.map((size) => Array.from({ length: size }, () => observedRequest({})));
  for (const batch of batches) returned.give(batch.map(({ pending }) => pending));
  return { returned, batches };
}

describe('batches that came back', () => {
  it('leave as they came, the oldest first', () => {
    const { returned, batches } = setUp(2, 1);
    expect(returned.requests).toBe(3);
    for (const batch of batches) {
      expect(returned.take()).toEqual(batch.map(({ pending }) => pending));
    }
    expect(returned.requests).toBe(0);
    expect(returned.take()).toBeUndefined();
  });

  it('leave without what was cancelled meanwhile', () => {
    const { returned, batches } = setUp(1, 2);
    batches[0]?.[0]?.pending.cancel();
    batches[1]?.[0]?.pending.cancel();
    expect(returned.take()).toEqual([batches[1]?.[1]?.pending]);
    expect(batches.flat().map(({ end }) => end?.outcome)).toEqual([
      'CANCELED',
      'CANCELED',
      undefined,
    ]);
  });

  it('fail together', () => {
    const { returned, batches } = setUp(1, 2);
    returned.failAll(unavailable('stopped'));
    expect(batches.flat().map(({ end }) => end?.error?.message)).toEqual(Array(3).fill('stopped'));
    expect(returned.requests).toBe(0);
  });
});
