import { describe, expect, it } from 'vitest';
import { type LoadedVersion, ModelEntry, type VersionLoad } from '../../src/server/model-entry.js';

/** A version whose retirement ends when the test says so. */
class FakeVersion implements LoadedVersion {
  readonly version: string;
  readonly load: number;
  isRetiring = false;
  endRetirement: () => void = () => {};

  constructor(version: string, load: number) {
    this.version = version;
    this.load = load;
  }

  retire(): Promise<void> {
    this.isRetiring = true;
    return new Promise((resolve) => {
      this.endRetirement = resolve;
    });
  }
}

function entry(): ModelEntry<FakeVersion> {
  return new ModelEntry('m', (error) => String(error));
}

function loads(
  ...versions: readonly (FakeVersion | { readonly version: string; readonly error: string })[]
): ReadonlyMap<string, VersionLoad<FakeVersion>> {
  return new Map(
    versions.map((result) => [
      result.version,
      async () => {
        if ('error' in result) throw result.error;
        return result;
      },
    ]),
  );
}

const nothing: ReadonlySet<string> = new Set();
const states = (model: ModelEntry<FakeVersion>) =>
  model.indexRows().map(({ version, state, reason }) => [version, state, reason]);

describe('ModelEntry', () => {
  it('runs a request without a version on the highest one, by number', async () => {
    const model = entry();
    await model.update({
      keep: nothing,
      load: loads(new FakeVersion('2', 1), new FakeVersion('10', 1), new FakeVersion('9', 1)),
    });
    expect(model.resolve('').version).toBe('10');
    expect(model.resolve('9').version).toBe('9');
    expect(model.readyVersions().map(({ version }) => version)).toEqual(['2', '9', '10']);
  });

  it.each([
    ['', "Request for unknown model: 'm' has no available versions", 'NOT_FOUND'],
    ['7', "Request for unknown model: 'm' version 7 is not found", 'NOT_FOUND'],
    ['1', "Request for unknown model: 'm' version 1 is not at ready state", 'UNAVAILABLE'],
  ])('refuses version %j of an unloaded model', async (version, message, code) => {
    const model = entry();
    await model.update({ keep: nothing, load: loads(new FakeVersion('1', 1)) });
    void model.unload();
    expect(() => model.resolve(version)).toThrow(expect.objectContaining({ message, code }));
  });

  it('serves the old load until every new version is ready, then switches in one step', async () => {
    const model = entry();
    const old = new FakeVersion('1', 1);
    await model.update({ keep: nothing, load: loads(old) });
    let finish: (version: FakeVersion) => void = () => {};
    const slow = new Promise<FakeVersion>((resolve) => {
      finish = resolve;
    });
    const update = model.update({ keep: nothing, load: new Map([['1', () => slow]]) });
    expect(model.resolve('')).toBe(old);
    expect(states(model)).toEqual([['1', 'READY', undefined]]);
    const renewed = new FakeVersion('1', 2);
    finish(renewed);
    await update;
    expect(model.resolve('1')).toBe(renewed);
    expect(old.isRetiring).toBe(true);
  });

  it('keeps serving what it had when an update fails, and retires what was loaded for it', async () => {
    const model = entry();
    const old = new FakeVersion('1', 1);
    await model.update({ keep: nothing, load: loads(old) });
    const renewed = new FakeVersion('1', 2);
    const failures = await model.update({
      keep: nothing,
      load: loads(renewed, { version: '2', error: 'bad file' }),
    });
    expect(failures).toEqual([{ version: '2', error: 'bad file' }]);
    expect(model.resolve('')).toBe(old);
    expect(renewed.isRetiring).toBe(true);
    expect(states(model)).toEqual([
      ['1', 'READY', undefined],
      ['2', 'UNAVAILABLE', 'bad file'],
    ]);
    expect(model.hasUnreadyVersion).toBe(false);
  });

  it('keeps what could be loaded when a first load fails in part, and is not ready', async () => {
    const model = entry();
    await model.update({
      keep: nothing,
      load: loads(new FakeVersion('1', 1), { version: '2', error: 'bad file' }),
    });
    expect(model.resolve('').version).toBe('1');
    expect(model.hasUnreadyVersion).toBe(true);
  });

  it('drops versions that an update does not name, and says so once they have drained', async () => {
    const model = entry();
    const old = new FakeVersion('1', 1);
    await model.update({ keep: nothing, load: loads(old) });
    await model.update({ keep: nothing, load: loads(new FakeVersion('2', 1)) });
    expect(states(model)).toEqual([
      ['1', 'UNLOADING', undefined],
      ['2', 'READY', undefined],
    ]);
    old.endRetirement();
    await Promise.resolve();
    await Promise.resolve();
    expect(states(model)[0]).toEqual(['1', 'UNAVAILABLE', 'unloaded']);
  });

  it('does not let the end of an old retirement undo a new load', async () => {
    const model = entry();
    const old = new FakeVersion('1', 1);
    await model.update({ keep: nothing, load: loads(old) });
    const unload = model.unload();
    const renewed = new FakeVersion('1', 2);
    await model.update({ keep: nothing, load: loads(renewed) });
    old.endRetirement();
    await unload;
    expect(model.resolve('1')).toBe(renewed);
    expect(states(model)).toEqual([['1', 'READY', undefined]]);
  });

  it('shows a failed first load with its reason until it is unloaded', async () => {
    const model = entry();
    await model.update({ keep: nothing, load: loads({ version: '1', error: 'no' }) });
    expect(states(model)).toEqual([['1', 'UNAVAILABLE', 'no']]);
    expect(model.hasUnreadyVersion).toBe(true);
    await model.unload();
    expect(states(model)).toEqual([['1', 'UNAVAILABLE', 'unloaded']]);
    expect(model.hasUnreadyVersion).toBe(false);
  });
});
