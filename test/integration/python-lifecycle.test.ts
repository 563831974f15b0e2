import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import {
  asTexts,
  configText,
  ints,
  PythonModels,
  testRequest,
} from '../backends/python/python-models.js';

const repository = fileURLToPath(new URL('../conformance/golden/repo/', import.meta.url));
const intToInt = configText(['A INT32 -1'], ['B INT32 -1']);
const intToText = configText(['A INT32 -1'], ['B STRING -1']);
const silentExecute = `
    def execute(self, requests):
        return []
`;

const models = new PythonModels();
afterEach(() => models.close());

describe('loading a Python model', () => {
  it('gives initialize its arguments, all of them text', async () => {
    const model = await models.loadSource(
      intToText,
      `
import json
class TritonPythonModel:
    def initialize(self, args):
        self.args = args
    def execute(self, requests):
        args = dict(self.args, model_config=json.loads(self.args["model_config"])["output"][0]["name"])
        text = json.dumps([args, [type(v).__name__ for v in self.args.values()]])
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([text], object))])]
`,
      { instanceKind: 'KIND_CPU', deviceId: 0 },
    );
    const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
    expect(JSON.parse(asTexts(outputs[0])[0] ?? '')).toEqual([
      {
        model_config: 'B',
        model_instance_name: 'm_0_0',
        model_instance_kind: 'CPU',
        model_instance_device_id: '0',
        model_repository: expect.stringMatching(/\/m$/),
        model_version: '1',
        model_name: 'm',
      },
      Array(7).fill('str'),
    ]);
  });

  it.each([
    [
      'init_fail',
      /^TritonModelException: cannot initialize\n\nAt:\n {2}\S+\/1\/model\.py\(7\): initialize\n$/,
    ],
    ['broken_python_syntax', /^SyntaxError: invalid syntax \(model\.py, line 1\)$/],
  ])('fails for %s as the reference server does', async (name, message) => {
    const folder = path.join(repository, name);
    const text = await readFile(path.join(folder, 'config.pbtxt'), 'utf8');
    await expect(models.load(folder, text)).rejects.toMatchObject({
      code: 'INTERNAL',
      message: expect.stringMatching(message),
    });
  });

  it.each([
    [
      'no class',
      'x = 1',
      /^AttributeError: module '1\.model' has no attribute 'TritonPythonModel'$/,
    ],
    ['no execute', 'class TritonPythonModel:\n    pass', /has no execute method/],
    [
      'a missing import',
      'import no_such_package',
      /^ModuleNotFoundError: No module named 'no_such_package'\n\nAt:\n {2}\S+model\.py\(4\): <module>\n$/,
    ],
    ['an exit', 'import sys\nsys.exit(3)', /^SystemExit: 3/],
  ])('fails for a model with %s', async (_what, source, message) => {
    await expect(models.loadSource(intToInt, source)).rejects.toThrow(message);
  });

  it('tells the exit code and the last output of a process that ends while it loads', async () => {
    const source = `
import os, sys
class TritonPythonModel:
    def initialize(self, args):
        print("no licence for this machine", file=sys.stderr)
        sys.stderr.flush()
        os._exit(7)
${silentExecute}`;
    await expect(models.loadSource(intToInt, source)).rejects.toThrow(
      /'m_0_0' is not healthy.* exit code 7; its last output: no licence for this machine$/,
    );
  });

  it('imports modules beside the model and of its package', async () => {
    const folder = await models.write('m', intToText, {
      '1/model.py': `
import numpy as np
import triton_python_backend_utils as pb_utils
import beside
from .package_member import name
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("B", np.array([beside.name, name, __name__], object))])]
`,
      '1/beside.py': 'name = "beside"',
      '1/package_member.py': 'name = "member"',
    });
    const model = await models.load(folder, intToText);
    const { outputs } = await model.infer(testRequest([ints('A', [1], [1])]));
    expect(asTexts(outputs[0])).toEqual(['beside', 'member', '1.model']);
  });

  it('gives up on an initialize that does not end', async () => {
    const source = `
import time
class TritonPythonModel:
    def initialize(self, args):
        time.sleep(60)
${silentExecute}`;
    await expect(
      models.loadSource(intToInt, source, {
        backendConfig: { 'initialize-timeout-seconds': '0.2' },
      }),
    ).rejects.toThrow('initialize did not end within 0.2 s');
  });

  it('finalizes the model when it is unloaded', async () => {
    const model = await models.loadSource(
      intToInt,
      `
class TritonPythonModel:
    def finalize(self):
        print("goodbye")
${silentExecute}`,
    );
    await model.instance.unload();
    expect(model.host.logs).toContain('info m_0_0: goodbye');
    expect(model.host.breaks).toEqual([]);
  });

  it('unloads a model that fails to finalize, and says so', async () => {
    const model = await models.loadSource(
      intToInt,
      `
class TritonPythonModel:
    def finalize(self):
        raise RuntimeError("stuck lid")
${silentExecute}`,
    );
    await model.instance.unload();
    expect(model.host.logs.join()).toContain('m_0_0: finalize: RuntimeError: stuck lid');
  });
});

describe('readiness of a Python model', () => {
  it.each([
    ['True', true],
    ['False', false],
  ])('is what is_ready returns: %s', async (answer, expected) => {
    const model = await models.loadSource(
      intToInt,
      `
class TritonPythonModel:
    def is_ready(self):
        return ${answer}
${silentExecute}`,
    );
    expect(await model.instance.isReady?.()).toBe(expected);
  });

  it.each([
    ['a number', 'return 1', 'is_ready must return a bool, but it returned int'],
    ['an exception', 'raise ValueError("cold")', 'ValueError: cold'],
  ])('is refused for %s', async (_what, statement, message) => {
    const model = await models.loadSource(
      intToInt,
      `
class TritonPythonModel:
    def is_ready(self):
        ${statement}
${silentExecute}`,
    );
    await expect(model.instance.isReady?.()).rejects.toThrow(message);
  });

  it('is not asked of a model without is_ready', async () => {
    const model = await models.loadSource(intToInt, `class TritonPythonModel:${silentExecute}`);
    expect(model.instance.isReady).toBeUndefined();
  });
});

describe('auto_complete_config', () => {
  const complete = (statements: string) => `
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(c):
        ${statements.replaceAll('\n', '\n        ')}
        return c
${silentExecute}`;

  it('adds tensors, batching and the transaction policy', async () => {
    const model = await models.loadSource(
      'backend: "python"',
      complete(
        [
          'c.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": [4, -1], "optional": True})',
          'c.add_output({"name": "B", "data_type": "TYPE_STRING", "dims": [1]})',
          'c.set_max_batch_size(8)',
          'c.set_dynamic_batching()',
          'c.set_model_transaction_policy({"decoupled": True})',
          'assert c.as_dict()["max_batch_size"] == 8',
        ].join('\n'),
      ),
    );
    expect(model.config).toMatchObject({
      max_batch_size: 8,
      input: [
        { name: 'A', data_type: 'TYPE_FP32', dims: [4, -1], optional: true, format: 'FORMAT_NONE' },
      ],
      output: [{ name: 'B', data_type: 'TYPE_STRING', dims: [1], label_filename: '' }],
      dynamic_batching: { max_queue_delay_microseconds: 0 },
      model_transaction_policy: { decoupled: true },
    });
  });

  it('keeps what the configuration has', async () => {
    const model = await models.loadSource(
      `${intToInt}\nmax_batch_size: 2`,
      complete(
        'c.add_input({"name": "A", "data_type": "TYPE_INT32", "dims": [-1]})\nc.set_max_batch_size(8)',
      ),
    );
    expect(model.config.max_batch_size).toBe(2);
    expect(model.config.input).toHaveLength(1);
  });

  it.each([
    [
      'an unknown property',
      'c.add_input({"name": "A", "data_type": "TYPE_INT32", "dims": [-1], "format": 1})',
      /ValueError: model 'm': input 'A' .* unknown property 'format'/,
    ],
    [
      'a missing property',
      'c.add_output({"name": "B", "dims": [1]})',
      /ValueError: .*output 'B' .* lacks property 'data_type'/,
    ],
    [
      'another datatype',
      'c.add_input({"name": "A", "data_type": "TYPE_FP32", "dims": [-1]})',
      /ValueError: .*input 'A' .* data_type TYPE_FP32, but config.pbtxt has TYPE_INT32/,
    ],
    [
      'other dims',
      'c.add_output({"name": "B", "data_type": "TYPE_INT32", "dims": [3]})',
      /ValueError: .*dims \[3\], but config.pbtxt has \[-1\]/,
    ],
    [
      'a smaller batch',
      'c.set_max_batch_size(2)',
      /ValueError: .*max_batch_size 4, which is more than the 2/,
    ],
    [
      'an unknown policy',
      'c.set_model_transaction_policy({"coupled": True})',
      /ValueError: .*only property is 'decoupled'/,
    ],
    ['another return value', 'return 5', /must return the ModelConfig .* returned int/],
  ])('refuses %s', async (_what, statement, message) => {
    const text = `${intToInt}\nmax_batch_size: 4`;
    await expect(models.loadSource(text, complete(statement))).rejects.toThrow(message);
  });

  it.each(['no_config_auto', 'minimal_auto'])('completes %s as recorded', async (name) => {
    const folder = path.join(repository, name);
    const text = await readFile(path.join(folder, 'config.pbtxt'), 'utf8').catch(() => '');
    const { config } = await models.load(folder, text);
    expect(config.input.map((input) => input.name)).toEqual(['INPUT0', 'INPUT1']);
    expect(config.output.map((output) => output.dims)).toEqual([[4], [4]]);
    expect(config.max_batch_size).toBe(8);
    expect(config.dynamic_batching).toBeDefined();
  });
});
