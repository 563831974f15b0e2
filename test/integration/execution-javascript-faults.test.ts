import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { failuresMax } from '../../src/execution/restart-policy.js';
import type { ModelConfig } from '../../src/model-config/model-config.js';
import { FakeClock } from '../support/fake-clock.js';
import { modelConfig, modelInput, modelOutput } from '../support/model-configs.js';
import {
  instanceGroup,
  numbersOf,
  type RunningModel,
  RunningModels,
  text,
} from '../support/running-instances.js';

const models = new RunningModels();

afterEach(() => models.closeAll());

const config = modelConfig({
  max_batch_size: 4,
  input: [modelInput('MODE', 'TYPE_STRING', [1])],
  output: [modelOutput('LENGTH', 'TYPE_INT32', [1])],
});

function start(changes: Partial<ModelConfig> = {}, options = {}): Promise<RunningModel> {
  return models.start('js_faults', { ...config, ...changes }, options);
}

const mode = (value: string) => ({ inputs: [text('MODE', [1, 1], value)] });

describe('a JavaScript model that answers wrongly fails its own requests', () => {
  const failures: readonly [string, string, string][] = [
    ['throw', 'INTERNAL', "for model 'm_0', message: TypeError: thrown on purpose"],
    ['throw text', 'INTERNAL', "for model 'm_0', message: a mere text"],
    ['throw code', 'NOT_FOUND', 'no such thing'],
  ];
  it.each(failures)('%s: the whole batch', async (fault, code, message) => {
    const model = await start();
    const outcomes = await model.run(mode('good'), mode(fault));
    for (const { error } of outcomes) {
      expect(error?.code).toBe(code);
      expect(error?.message).toContain(message);
    }
    expect(numbersOf((await model.run(mode('next')))[0], 'LENGTH')).toEqual([4]);
  });

  const answers: readonly [string, string, string][] = [
    ['error', 'INTERNAL', 'an error for one request'],
    ['error code', 'INVALID_ARG', 'not with this input'],
    ['wrong shape', 'INTERNAL', "model 'm': output 'LENGTH' has shape [1,2], expected [1,1]"],
    ['wrong rows', 'INTERNAL', "model 'm': output 'LENGTH' has shape [2,1], expected [1,1]"],
    [
      'wrong count',
      'INTERNAL',
      "model 'm': output 'LENGTH' has 2 elements, expected 1 for shape [1,1]",
    ],
    [
      'wrong array',
      'INTERNAL',
      "model 'm': output 'LENGTH' has data of Float32Array, expected Int32Array for INT32",
    ],
    ['wrong datatype', 'INTERNAL', "model 'm': output 'LENGTH' has datatype FP32, expected INT32"],
    ['unknown datatype', 'INTERNAL', "model 'm': output 'LENGTH' has unknown datatype 'TEXT'"],
    [
      'unknown output',
      'INTERNAL',
      "model 'm': unexpected output 'WIDTH', allowed outputs are: LENGTH",
    ],
    ['no outputs', 'INTERNAL', "model 'm': a response must be { outputs: [...] } or an Error"],
    ['nothing', 'INTERNAL', "model 'm': a response must be { outputs: [...] } or an Error"],
  ];
  it.each(answers)('%s: that request, not its neighbours', async (fault, code, message) => {
    const model = await start();
    const [good, bad, alsoGood] = await model.run(mode('good'), mode(fault), mode('better'));
    expect(bad?.error?.code).toBe(code);
    expect(bad?.error?.message).toContain(message);
    expect(numbersOf(good, 'LENGTH')).toEqual([4]);
    expect(numbersOf(alsoGood, 'LENGTH')).toEqual([6]);
  });

  it.each(['list', 'deduced'])('%s: is converted, and no fault', async (form) => {
    const model = await start();
    expect(numbersOf((await model.run(mode(form)))[0], 'LENGTH')).toEqual([form.length]);
  });

  it('gives fewer answers than requests: all of them', async () => {
    const model = await models.start('js_wrong_count', config);
    const outcomes = await model.run(mode('a'), mode('b'));
    for (const { error } of outcomes) {
      expect(error?.message).toContain('one entry a request, expected 2, got 0');
    }
  });
});

describe('a JavaScript model that brings its thread down', () => {
  const deaths: readonly [string, string, string][] = [
    ['exit', 'INTERNAL', 'the instance was lost: its thread ended with exit code 3'],
    ['loop', 'UNAVAILABLE', 'the execution took longer than 300 ms and was ended'],
    ['never', 'UNAVAILABLE', 'the execution took longer than 300 ms and was ended'],
  ];
  it.each(deaths)(
    '%s: fails its batch, and the next request succeeds',
    async (fault, code, message) => {
      const model = await start({}, { executionTimeoutMs: 300 });
      const outcomes = await model.run(mode('good'), mode(fault));
      for (const { error } of outcomes) {
        expect(error?.code).toBe(code);
        expect(error?.message).toContain(message);
      }
      expect(numbersOf((await model.run(mode('next')))[0], 'LENGTH')).toEqual([4]);
      expect(model.logs.join('\n')).toContain('the instance is replaced');
    },
  );

  it('runs out of memory: fails its batch, and the next request succeeds', async () => {
    const model = await start({}, { heapMiBMax: 24 });
    const [outcome] = await model.run(mode('memory'));
    expect(outcome?.error?.code).toBe('INTERNAL');
    expect(outcome?.error?.message).toContain('its thread ran out of memory');
    expect(numbersOf((await model.run(mode('next')))[0], 'LENGTH')).toEqual([4]);
  });

  it('dies between two executions: is replaced before the next one', async () => {
    const model = await start();
    const [first] = await model.run(mode('die later'));
    expect(numbersOf(first, 'LENGTH')).toEqual([9]);
    await expect.poll(() => model.logs.join()).toContain('thrown between two executions');
    expect(numbersOf((await model.run(mode('next')))[0], 'LENGTH')).toEqual([4]);
  });

  it('is not ready until its only instance is back', async () => {
    const model = await start();
    expect(await model.pool.isReady()).toBe(true);
    await model.run(mode('exit'));
    expect(await model.pool.isReady()).toBe(false);
    await model.run(mode('next'));
    expect(await model.pool.isReady()).toBe(true);
  });

  it('leaves the other instance serving', async () => {
    const model = await start({ instance_group: [instanceGroup(2)] }, { executionTimeoutMs: 400 });
    const looping = model.run(mode('loop'));
    const answered = await Promise.all([model.run(mode('a')), model.run(mode('bb'))]);
    expect(answered.map(([outcome]) => numbersOf(outcome, 'LENGTH'))).toEqual([[1], [2]]);
    expect((await looping)[0]?.error?.code).toBe('UNAVAILABLE');
  });
});

describe('a model that does not load again', () => {
  it('is tried with pauses, then given up: requests fail at once and it is not ready', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'nereid-test-'));
    const file = join(folder, 'model.js');
    const good = new URL('../fixtures/models/js_faults/1/model.js', import.meta.url);
    await copyFile(good, file);
    const clock = new FakeClock();
    const model = await start({}, { versionDirectory: folder, clock, startTimeoutMs: 0 });
    await writeFile(file, 'throw new Error("the file is broken now");');

    const [lost] = await model.run(mode('exit'));
    expect(lost?.error?.message).toContain('exit code 3');
    const failures = () => model.logs.filter((line) => line.includes('does not start again'));
    for (let failure = 1; failure <= failuresMax + 1; failure += 1) {
      await expect.poll(failures, { timeout: 10_000 }).toHaveLength(failure);
      if (failure > failuresMax) break;
      expect(model.pool.idleInstances).toBe(0);
      await expect.poll(() => clock.pendingTimers).toBe(1);
      clock.advance(30e9);
    }
    await expect.poll(() => model.pool.idleInstances).toBe(1);
    const [refused] = await model.run(mode('next'));
    expect(refused?.error?.code).toBe('UNAVAILABLE');
    expect(refused?.error?.message).toContain('no instance is left: ');
    expect(refused?.error?.message).toContain('the file is broken now');
    expect(await model.pool.isReady()).toBe(false);
    await rm(folder, { recursive: true });
  });
});

describe('a JavaScript model that does not load', () => {
  const failures: readonly [string, string][] = [
    ['js_no_export', "model 'm': its default export is undefined"],
    ['js_no_execute', "model 'm': its default export has no 'execute'"],
    ['js_import_fails', "model 'm': import failed: Error: Cannot find module"],
    ['js_initialize_fails', "model 'm': initialize failed: RangeError: not today"],
    ['js_exits_at_start', 'its thread ended with exit code 7'],
    ['js_missing', "unable to find 'model.js' or 'model.mjs' for model 'm'"],
  ];
  it.each(failures)('%s: says why', async (folder, message) => {
    await expect(models.start(folder, config)).rejects.toThrow(message);
  });

  it('hangs in initialize: is ended after the start time-out', async () => {
    const load = models.start('js_hangs_at_start', config, { startTimeoutMs: 300 });
    await expect(load).rejects.toThrow("model 'm' version 1: loading took longer than 300 ms");
  });

  it('hangs in finalize: is ended after the time it is given', async () => {
    const model = await models.start('js_hangs_at_end', config);
    await model.pool.close();
    expect(await model.pool.isReady()).toBe(false);
  });
});
