import { describe, expect, it } from 'vitest';
import type { ExecuteReply } from '../../src/execution/model-instances.js';
import { RunningExecutions } from '../../src/execution/running-executions.js';

const failed: ExecuteReply = {
  type: 'failed',
  error: { code: 'INTERNAL', message: 'no' },
  isFatal: false,
};

function ran(startNs: number, endNs: number): ExecuteReply {
  const stamps = [startNs, startNs, endNs, endNs] as const;
  const buffer = new ArrayBuffer(0);
  return {
    type: 'executed-requests',
    buffer,
    results: [],
    stamps,
    eachStamps: undefined,
    recycled: undefined,
  };
}

describe('an execution may wait behind the one that runs', () => {
  it.each<[string, boolean, ExecuteReply[], number, boolean]>([
    ['not behind the first one, of which nothing is known', true, [], 1, false],
    ['where the last one took 5 ms', true, [ran(0, 5e6)], 1, true],
    ['not where the last one took longer', true, [ran(0, 5e6 + 1)], 1, false],
    ['not where the last one failed', true, [ran(0, 10), failed], 1, false],
    ['not where one waits already', true, [ran(0, 10)], 2, false],
    ['not where none runs', true, [ran(0, 10)], 0, false],
    ['not where the model may end its thread', false, [ran(0, 10)], 1, false],
  ])('%s', (_what, mayQueue, replies, count, hasRoom) => {
    const executions = new RunningExecutions(mayQueue);
    for (const reply of replies) {
      executions.begin(0);
      executions.end(reply);
    }
    for (let begun = 0; begun < count; begun += 1) executions.begin(0);
    expect(executions.hasRoom).toBe(hasRoom);
    expect(executions.count).toBe(count);
  });
});

it('has not started what waited behind an execution that took the thread with it', () => {
  const executions = new RunningExecutions(true);
  const lost = { ...failed, isFatal: true };
  const endTwo = (first: ExecuteReply, second: ExecuteReply) => {
    executions.begin(0);
    executions.begin(0);
    return [executions.end(first), executions.end(second)];
  };
  expect(endTwo(lost, lost)).toEqual([true, false]);
  // The thread that follows starts afresh.
  expect(endTwo(ran(0, 1), lost)).toEqual([true, true]);
  expect(endTwo(failed, lost)).toEqual([true, true]);
  expect(endTwo(ran(0, 1), ran(1, 2))).toEqual([true, true]);
});

it('runs since it was handed over, or since the one before it was done', () => {
  const executions = new RunningExecutions(true);
  executions.begin(7);
  executions.begin(8);
  expect(executions.sinceNs).toBe(7);
  executions.end(ran(10, 30));
  expect(executions.sinceNs).toBe(30);
});
