import { describe, expect, it } from 'vitest';
import { unavailable } from '../../src/errors.js';
import type { RepositoryDiff } from '../../src/repository/diff.js';
import type { ModelListing, ModelRepository } from '../../src/repository/model-repository.js';
import { Poller, type PollReport } from '../../src/repository/poller.js';
import { FakeClock } from '../support/fake-clock.js';

const intervalMs = 1000;
const settleMs = 200;
type Models = Readonly<Record<string, string>>;

/** A repository whose models are set by hand and whose scans end when the test says so. */
class HandRepository implements ModelRepository {
  readonly location = '/models';
  readonly settleNs = 0;
  models: Models = { a: '1' };
  failure: Error | undefined;
  scans = 0;
  /** Where set, scans wait for it. */
  gate: Promise<void> | undefined;
  listener: (() => void) | undefined;

  async scan(): Promise<ReadonlyMap<string, ModelListing>> {
    this.scans++;
    const { models, failure } = this;
    await this.gate;
    if (failure !== undefined) {
      throw failure;
    }
    return new Map(Object.entries(models).map(([name, rest]) => [name, listing(name, rest)]));
  }

  async look(): Promise<undefined> {
    return undefined;
  }

  async localize(): Promise<never> {
    throw new Error('a poll copies nothing');
  }

  async versionFiles(): Promise<readonly string[]> {
    return [];
  }

  async readConfig(): Promise<undefined> {
    return undefined;
  }

  async watch(listener: () => void): Promise<void> {
    this.listener = listener;
  }

  async close(): Promise<void> {}
}

function listing(name: string, restFingerprint: string): ModelListing {
  return { name, configFingerprint: '', versions: new Map(), restFingerprint, warnings: [] };
}

async function startPoller() {
  const clock = new FakeClock();
  const repository = new HandRepository();
  const diffs: string[] = [];
  const reports: PollReport[] = [];
  const listener = {
    answer: (): Promise<void> => Promise.resolve(),
    async changed(diff: RepositoryDiff): Promise<void> {
      diffs.push(describeDiff(diff));
      await listener.answer();
    },
    polled(report: PollReport): void {
      reports.push(report);
    },
  };
  const poller = new Poller(
    repository,
    await repository.scan(),
    { intervalNs: intervalMs * 1e6, settleNs: settleMs * 1e6 },
    listener,
    clock,
  );
  repository.scans = 0;
  await poller.start();
  /** Moves time and lets what became due finish, a timer at a time. */
  const pass = async (milliseconds: number): Promise<void> => {
    for (let passed = 0; passed < milliseconds; passed += 10) {
      clock.advanceMs(10);
      await flush();
    }
  };
  return { clock, repository, diffs, reports, listener, poller, pass };
}

/** Everything that is ready to run has run when this resolves. */
function flush(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

function describeDiff(diff: RepositoryDiff): string {
  return [
    ...diff.added.map(({ name }) => `+${name}`),
    ...diff.changed.map(({ after }) => `~${after.name}`),
    ...diff.removed.map((name) => `-${name}`),
  ].join(' ');
}

describe('Poller', () => {
  it('looks once an interval and tells nothing where nothing changes', async () => {
    const { repository, reports, diffs, pass } = await startPoller();
    await pass(990);
    expect(repository.scans).toBe(0);
    await pass(2010);
    expect(repository.scans).toBe(3);
    expect(reports.map(({ outcome }) => outcome.kind)).toEqual(Array(3).fill('unchanged'));
    expect(reports.every(({ isRegular }) => isRegular)).toBe(true);
    expect(diffs).toEqual([]);
  });

  it('tells a change after a second look that comes before the next interval', async () => {
    const { repository, reports, diffs, pass } = await startPoller();
    repository.models = { a: '2', b: '1' };
    await pass(1000);
    expect(diffs).toEqual([]);
    expect(reports.at(-1)?.outcome).toEqual({ kind: 'unsettled', models: ['a', 'b'] });
    await pass(settleMs);
    expect(diffs).toEqual(['+b ~a']);
    expect(reports.at(-1)).toMatchObject({ isRegular: false, outcome: { kind: 'changed' } });
    await pass(3000);
    expect(diffs).toEqual(['+b ~a']);
  });

  it('keeps the regular pace whatever comes in between', async () => {
    const { repository, reports, pass } = await startPoller();
    repository.models = {};
    await pass(3000);
    expect(reports.filter(({ isRegular }) => isRegular)).toHaveLength(3);
  });

  it('waits for a slow copy to end, looking less and less often', async () => {
    const { repository, diffs, pass } = await startPoller();
    for (let size = 0; size < 500; size++) {
      repository.models = { a: '1', b: String(size) };
      await pass(10);
    }
    expect(diffs).toEqual([]);
    // An interval a look after the first ones: 200, 400, 800 ms.
    expect(repository.scans).toBeLessThan(12);
    await pass(intervalMs + settleMs);
    expect(diffs).toEqual(['+b']);
  });

  it('polls soon after a hint and gathers the hints that follow', async () => {
    const { repository, reports, pass } = await startPoller();
    await pass(300);
    repository.listener?.();
    repository.listener?.();
    await pass(40);
    repository.listener?.();
    expect(repository.scans).toBe(0);
    await pass(10);
    expect(repository.scans).toBe(1);
    expect(reports[0]?.isRegular).toBe(false);
  });

  it('keeps hinted polls apart', async () => {
    const { repository, pass } = await startPoller();
    await pass(300);
    for (let hint = 0; hint < 60; hint++) {
      repository.listener?.();
      await pass(10);
    }
    expect(repository.scans).toBe(3);
  });

  it('polls again after a hint that came during a poll', async () => {
    const { repository, pass } = await startPoller();
    const gate = withResolvers();
    repository.gate = gate.promise;
    await pass(1000);
    expect(repository.scans).toBe(1);
    repository.listener?.();
    repository.gate = undefined;
    gate.resolve();
    await pass(settleMs);
    expect(repository.scans).toBe(2);
  });

  it('never starts a poll while another one runs', async () => {
    const { repository, pass } = await startPoller();
    const gate = withResolvers();
    repository.gate = gate.promise;
    await pass(5000);
    repository.listener?.();
    await pass(1000);
    expect(repository.scans).toBe(1);
    gate.resolve();
    await pass(20);
    expect(repository.scans).toBe(2);
  });

  it('starts no poll before the listener is done with a change', async () => {
    const { repository, listener, diffs, pass } = await startPoller();
    const load = withResolvers();
    listener.answer = () => load.promise;
    repository.models = {};
    await pass(5000);
    expect(diffs).toEqual(['-a']);
    expect(repository.scans).toBe(2);
    load.resolve();
    await pass(20);
    expect(repository.scans).toBe(3);
  });

  it('changes nothing by a poll that fails, and reports it', async () => {
    const { repository, reports, diffs, pass } = await startPoller();
    repository.models = {};
    repository.failure = unavailable('the store is down');
    await pass(3000);
    expect(diffs).toEqual([]);
    expect(reports).toHaveLength(3);
    expect(reports[0]?.outcome).toMatchObject({
      kind: 'failed',
      error: { code: 'UNAVAILABLE', message: 'the store is down' },
    });
    repository.failure = undefined;
    repository.models = { a: '1' };
    await pass(2000);
    expect(diffs).toEqual([]);
    expect(reports.at(-1)?.outcome.kind).toBe('unchanged');
  });

  it('goes on after a listener that fails', async () => {
    const { repository, listener, reports, diffs, pass } = await startPoller();
    listener.answer = () => Promise.reject(new Error('broken'));
    repository.models = {};
    await pass(1000 + settleMs);
    expect(diffs).toEqual(['-a']);
    expect(reports.at(-1)?.outcome).toMatchObject({ kind: 'failed', error: { code: 'INTERNAL' } });
    listener.answer = () => Promise.resolve();
    repository.models = { c: '1' };
    await pass(2000);
    expect(diffs).toEqual(['-a', '+c']);
  });

  it('measures the look and not what the listener does', async () => {
    const { clock, repository, listener, reports, pass } = await startPoller();
    const gate = withResolvers();
    const load = withResolvers();
    repository.models = {};
    await pass(1000);
    repository.gate = gate.promise;
    listener.answer = () => load.promise;
    await pass(settleMs);
    clock.advanceMs(30);
    gate.resolve();
    await flush();
    clock.advanceMs(70);
    load.resolve();
    await flush();
    expect(reports.at(-1)?.durationNs).toBe(30e6);
  });

  it('ends with the poll that runs and starts no other', async () => {
    const { clock, repository, poller, diffs, pass } = await startPoller();
    repository.models = {};
    await pass(1000);
    const gate = withResolvers();
    repository.gate = gate.promise;
    await pass(settleMs);
    let isClosed = false;
    const closing = poller.close().then(() => {
      isClosed = true;
    });
    await flush();
    expect(isClosed).toBe(false);
    gate.resolve();
    await closing;
    repository.listener?.();
    await pass(5000);
    expect(repository.scans).toBe(2);
    expect(clock.pendingTimers).toBe(0);
    // Nobody is there any more to act on it.
    expect(diffs).toEqual([]);
  });
});

function withResolvers(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => {};
  const promise = new Promise<void>((settled) => {
    resolve = settled;
  });
  return { promise, resolve };
}
