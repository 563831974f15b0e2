import { describe, expect, it } from 'vitest';
import { Alarm } from '../../src/scheduling/alarm.js';
import { DeadlineHeap } from '../../src/scheduling/deadline-heap.js';
import { QueuedRequest, RequestList } from '../../src/scheduling/request-list.js';
import { StepLimiter } from '../../src/scheduling/step-limiter.js';
import { FakeClock } from '../support/fake-clock.js';
import { observedRequest } from '../support/pending-requests.js';
import { SeededRandom } from '../support/random.js';

function entry(deadlineNs: number, order = 0): QueuedRequest {
  return new QueuedRequest(observedRequest({}).pending, '', 0, 0, deadlineNs, order);
}

describe('Alarm', () => {
  function setUp() {
    const clock = new FakeClock(0);
    const woken: number[] = [];
    const alarm = new Alarm(clock, () => woken.push(clock.nowNs()));
    return { clock, woken, alarm };
  }

  it('wakes its owner at the time asked for, once', () => {
    const { clock, woken, alarm } = setUp();
    alarm.wakeBy(10);
    clock.advance(100);
    expect(woken).toEqual([10]);
  });

  it('keeps an earlier time and takes one that is earlier still', () => {
    const { clock, woken, alarm } = setUp();
    alarm.wakeBy(10);
    alarm.wakeBy(20);
    alarm.wakeBy(5);
    expect(clock.pendingTimers).toBe(1);
    clock.advance(100);
    expect(woken).toEqual([5]);
  });

  it('wakes at once for a time in the past, and never for Infinity', () => {
    const { clock, woken, alarm } = setUp();
    clock.advance(50);
    alarm.wakeBy(10);
    alarm.wakeBy(Number.POSITIVE_INFINITY);
    clock.advance(0);
    expect(woken).toEqual([50]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('can be set again while it wakes, and cleared twice', () => {
    const clock = new FakeClock(0);
    const woken: number[] = [];
    const alarm = new Alarm(clock, () => {
      woken.push(clock.nowNs());
      if (woken.length < 3) alarm.wakeBy(clock.nowNs() + 10);
    });
    alarm.wakeBy(10);
    clock.advance(100);
    expect(woken).toEqual([10, 20, 30]);
    alarm.wakeBy(200);
    alarm.clear();
    alarm.clear();
    clock.advance(1000);
    expect(woken).toHaveLength(3);
  });
});

describe('RequestList', () => {
  const members = (list: RequestList) => {
    const found: QueuedRequest[] = [];
    for (let one = list.first; one !== undefined; one = one.next) found.push(one);
    return found;
  };
  const filled = () => {
    const list = new RequestList();
    const entries = [entry(1), entry(2), entry(3)];
    for (const one of entries) list.push(one);
    return { list, entries };
  };

  it.each([0, 1, 2])('keeps its links when member %i leaves', (index) => {
    const { list, entries } = filled();
    const [gone] = entries.splice(index, 1);
    if (gone !== undefined) list.remove(gone);
    expect(members(list)).toEqual(entries);
    expect(list.size).toBe(2);
    expect(gone?.list).toBeUndefined();
    const last = entry(4);
    list.push(last);
    expect(members(list)).toEqual([...entries, last]);
  });

  it('takes an entry back in front, also when empty', () => {
    const { list, entries } = filled();
    const front = entry(0);
    list.unshift(front);
    expect(members(list)).toEqual([front, ...entries]);
    for (const one of members(list)) list.remove(one);
    list.unshift(front);
    list.push(entries[0] ?? front);
    expect(members(list)).toEqual([front, entries[0]]);
  });
});

describe('DeadlineHeap', () => {
  it('gives deadlines in order, equal ones in the order of arrival, whatever leaves meanwhile', () => {
    const random = new SeededRandom(3);
    const heap = new DeadlineHeap();
    const list = new RequestList();
    const live = new Set<QueuedRequest>();
    for (let order = 0; order < 3000; order += 1) {
      const added = entry(random.integer(1, 200), order);
      list.push(added);
      live.add(added);
      heap.push(added);
      if (!random.chance(0.6)) continue;
      const gone = random.pick([...live].slice(0, 50));
      if (gone === undefined) continue;
      list.remove(gone);
      live.delete(gone);
      heap.noteRemoval();
    }
    const expected = [...live].sort(
      (left, right) => left.deadlineNs - right.deadlineNs || left.order - right.order,
    );
    const given: QueuedRequest[] = [];
    for (let next = heap.peek(); next !== undefined; next = heap.peek()) {
      heap.pop();
      given.push(next);
    }
    expect(given.map(({ order }) => order)).toEqual(expected.map(({ order }) => order));
  });
});

describe('StepLimiter', () => {
  it('gives each free place to the first that waits', () => {
    const limiter = new StepLimiter(1);
    const taken: string[] = [];
    expect(limiter.tryTake()).toBe(true);
    expect(limiter.tryTake()).toBe(false);
    limiter.wait(() => taken.push('a'));
    const giveUp = limiter.wait(() => taken.push('b'));
    limiter.wait(() => taken.push('c'));
    giveUp();
    limiter.release();
    limiter.release();
    expect(taken).toEqual(['a', 'c']);
    limiter.release();
    expect(limiter.tryTake()).toBe(true);
  });

  it('has no bound where it is 0', () => {
    const limiter = new StepLimiter(0);
    expect(Array.from({ length: 100 }, () => limiter.tryTake())).not.toContain(false);
  });
});
