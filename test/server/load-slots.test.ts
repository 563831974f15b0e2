import { describe, expect, it } from 'vitest';
import { LoadSlots } from '../../src/server/load-slots.js';

describe('LoadSlots', () => {
  it('runs no more loads at once than it has slots, in order, also after failures', async () => {
    const slots = new LoadSlots(2);
    const started: number[] = [];
    const finish: ((isGood: boolean) => void)[] = [];
    const loads = [0, 1, 2, 3].map((index) =>
      slots
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
    await loads[1];
    await new Promise(setImmediate);
    expect(started).toEqual([0, 1, 2]);
    finish[0]?.(true);
    await new Promise(setImmediate);
    expect(started).toEqual([0, 1, 2, 3]);
    finish[2]?.(true);
    finish[3]?.(true);
    expect(await Promise.all(loads)).toEqual([0, 'failed', 2, 3]);
  });
});
