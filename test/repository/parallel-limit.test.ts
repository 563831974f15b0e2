import { describe, expect, it } from 'vitest';
import { ParallelLimit } from '../../src/repository/parallel-limit.js';

describe('ParallelLimit', () => {
  it('runs no more at once than it may, in order, also after failures', async () => {
    const limit = new ParallelLimit(2);
    const started: number[] = [];
    const finish: ((isGood: boolean) => void)[] = [];
    const runs = [0, 1, 2, 3].map((index) =>
      limit
        .run(
          () =>
            new Promise<number>((resolve, reject) => {
              started.push(index);
              finish[index] = (isGood) => (isGood ? resolve(index) : reject(new Error('no')));
            }),
        )
        .catch(() => 'failed'),
    );
    expect(started).toEqual([0, 1]);
    finish[1]?.(false);
    await runs[1];
    await new Promise(setImmediate);
    expect(started).toEqual([0, 1, 2]);
    finish[0]?.(true);
    await new Promise(setImmediate);
    expect(started).toEqual([0, 1, 2, 3]);
    finish[2]?.(true);
    finish[3]?.(true);
    expect(await Promise.all(runs)).toEqual([0, 'failed', 2, 3]);
  });
});
