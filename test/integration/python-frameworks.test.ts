import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { chmod, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { encodeBytesElements } from '../../src/inference/bytes-elements.js';
import type { Tensor } from '../../src/inference/tensor.js';
import {
  asFloats,
  asInts,
  asTexts,
  floats,
  PythonModels,
  testInterpreter,
  testRequest,
} from '../backends/python/python-models.js';

const scripts = fileURLToPath(new URL('../python/', import.meta.url));

/*
 * Torch and TensorFlow are no dependencies: these suites run where an interpreter has them, and are
 * listed as skipped where none does. NEREID_TEST_TORCH_PYTHON and NEREID_TEST_TENSORFLOW_PYTHON name
 * one; Debian's python3-torch is found without.
 */
const torchPython = interpreterWith('torch', 'NEREID_TEST_TORCH_PYTHON');
const tensorflowPython = interpreterWith('tensorflow', 'NEREID_TEST_TENSORFLOW_PYTHON');

function interpreterWith(packageName: string, variable: string): string | undefined {
  const candidates = [process.env[variable], '/usr/bin/python3', testInterpreter()];
  return candidates.find((candidate) => {
    if (candidate === undefined) return false;
    const look = `import importlib.util as u, sys; sys.exit(u.find_spec("${packageName}") is None)`;
    try {
      execFileSync(candidate, ['-c', look], { stdio: 'ignore' });
      return true;
    } catch {
      return false;
    }
  });
}

const models = new PythonModels();
afterEach(() => models.close());

describe.skipIf(torchPython === undefined)('TorchScript models (need torch)', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'nereid-torch-'));
  beforeAll(() => {
    execFileSync(torchPython ?? '', [path.join(scripts, 'build_torch_models.py'), folder]);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  async function load(file: string, text: string) {
    const bytes = await readFile(path.join(folder, `${file}.pt`));
    const model = await models.write(file, text, { '1/model.pt': bytes });
    return models.load(model, text, { backendConfig: { interpreter: torchPython ?? '' } });
  }

  function config(inputs: readonly string[], outputs: readonly string[], rest = ''): string {
    const list = (kind: string, tensors: readonly string[]) =>
      tensors.map((tensor) => {
        const [name, datatype = 'FP32'] = tensor.split(' ');
        return `${kind} { name: "${name}" data_type: TYPE_${datatype} dims: [ -1 ] }`;
      });
    return [
      'platform: "pytorch_libtorch"',
      ...list('input', inputs),
      ...list('output', outputs),
      rest,
    ].join('\n');
  }

  it.each([
    [
      'a tuple, by index',
      'add_sub',
      ['IN__0', 'IN__1'],
      ['OUT__0', 'OUT__1'],
      [
        [3, 5],
        [-1, 1],
      ],
    ],
    [
      'inputs in another order',
      'add_sub',
      ['IN__1', 'IN__0'],
      ['OUT__0', 'OUT__1'],
      [
        [3, 5],
        [1, -1],
      ],
    ],
    [
      'outputs in another order',
      'add_sub',
      ['IN__0', 'IN__1'],
      ['OUT__1', 'OUT__0'],
      [
        [-1, 1],
        [3, 5],
      ],
    ],
    [
      'arguments by name',
      'add_sub',
      ['right', 'left'],
      ['X', 'Y'],
      [
        [3, 5],
        [1, -1],
      ],
    ],
    [
      'a list',
      'add_sub_list',
      ['IN__0', 'IN__1'],
      ['OUT__0', 'OUT__1'],
      [
        [3, 5],
        [-1, 1],
      ],
    ],
    [
      'a dict, by key',
      'add_sub_by_key',
      ['left', 'right'],
      ['sum', 'difference'],
      [
        [3, 5],
        [-1, 1],
      ],
    ],
  ])('take and give %s', async (_what, file, inputs, outputs, expected) => {
    const model = await load(file, config(inputs, outputs));
    const values = [
      [1, 3],
      [2, 2],
    ];
    const response = await model.infer(
      testRequest(inputs.map((name, index) => floats(name, [2], values[index] ?? []))),
    );
    expect(response.outputs.map(({ name }) => name)).toEqual(outputs);
    expect(response.outputs.map(asFloats)).toEqual(expected);
  });

  it('leave out an optional argument', async () => {
    const text = config(['values', 'addend'], ['OUT__0']);
    const model = await load('double', text);
    const values = floats('values', [2], [1, 2]);
    const alone = await model.infer(testRequest([values]));
    expect(asFloats(alone.outputs[0])).toEqual([2, 4]);
    const both = await model.infer(testRequest([values, floats('addend', [2], [10, 20])]));
    expect(asFloats(both.outputs[0])).toEqual([12, 24]);
  });

  it('take text and give text', async () => {
    const model = await load('shout', config(['texts STRING'], ['OUT__0 STRING']));
    const bytes = encodeBytesElements(['a', 'bc'].map((text) => Buffer.from(text)));
    const texts: Tensor = { name: 'texts', datatype: 'BYTES', shape: [2], encoding: 'raw', bytes };
    const { outputs } = await model.infer(testRequest([texts]));
    expect(asTexts(outputs[0])).toEqual(['A', 'BC']);
  });

  it('run a batch at once, and split its rows', async () => {
    const model = await load('double', config(['values'], ['OUT__0'], 'max_batch_size: 8'));
    const results = await model.instance.execute([
      testRequest([floats('values', [1, 2], [1, 2])]),
      testRequest([floats('values', [2, 2], [3, 4, 5, 6])]),
      testRequest([floats('values', [1, 3], [7, 8, 9])]),
    ]);
    expect(
      results.map((result) =>
        result.type === 'response'
          ? [result.response.outputs[0]?.shape, asFloats(result.response.outputs[0])]
          : result,
      ),
    ).toEqual([
      [
        [1, 2],
        [2, 4],
      ],
      [
        [2, 2],
        [6, 8, 10, 12],
      ],
      [
        [1, 3],
        [14, 16, 18],
      ],
    ]);
  });

  it.each([
    ['by default', '', 1],
    [
      'when switched off',
      'parameters { key: "INFERENCE_MODE" value { string_value: "false" } }',
      0,
    ],
  ])('run in inference mode %s', async (_what, parameters, expected) => {
    const model = await load('mode', config(['values'], ['OUT__0 INT64'], parameters));
    const { outputs } = await model.infer(testRequest([floats('values', [1], [1])]));
    expect(asInts(outputs[0])[0]).toBe(expected);
  });

  it('classify an image as the model does by itself', async () => {
    const text = `
name: "classifier" platform: "pytorch_libtorch" max_batch_size : 0
input { name: "input__0" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] reshape { shape: [ 1, 3, 224, 224 ] } }
output { name: "output__0" data_type: TYPE_FP32 dims: [ 1, 1000 ,1, 1] reshape { shape: [ 1, 1000 ] } }
parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "1" } }`;
    const model = await load('classifier', text);
    const pixels = Array.from({ length: 3 * 224 * 224 }, (_, index) => (index % 255) / 255);
    const { outputs } = await model.infer(
      testRequest([floats('input__0', [1, 3, 224, 224], pixels)]),
    );
    expect(outputs[0]?.shape).toEqual([1, 1000]);
    const alone = execFileSync(torchPython ?? '', [
      '-c',
      `import json, torch
m = torch.jit.load("${path.join(folder, 'classifier.pt')}").eval()
x = (torch.arange(3 * 224 * 224) % 255 / 255).reshape(1, 3, 224, 224)
print(json.dumps(m(x).flatten().tolist()))`,
    ]);
    const expected = JSON.parse(alone.toString()) as number[];
    for (const [index, value] of asFloats(outputs[0]).entries()) {
      expect(value).toBeCloseTo(expected[index] ?? Number.NaN, 4);
    }
  });

  it.each([
    [
      'an input that is no argument',
      'double',
      ['X'],
      ['OUT__0'],
      '',
      /input 'X' is no argument of forward \(values, addend\)/,
    ],
    [
      'an index that is no argument',
      'double',
      ['X__2'],
      ['OUT__0'],
      '',
      /input 'X__2' is no argument/,
    ],
    [
      'a parameter that is no boolean',
      'double',
      ['values'],
      ['OUT__0'],
      'parameters { key: "INFERENCE_MODE" value { string_value: "maybe" } }',
      /INFERENCE_MODE must be true or false, got 'maybe'/,
    ],
    [
      'a parameter that is no number',
      'double',
      ['values'],
      ['OUT__0'],
      'parameters { key: "INTRA_OP_THREAD_COUNT" value { string_value: "x" } }',
      /INTRA_OP_THREAD_COUNT must be a whole number/,
    ],
  ])('do not load with %s', async (_what, file, inputs, outputs, rest, message) => {
    await expect(load(file, config(inputs, outputs, rest))).rejects.toThrow(message);
  });

  it('do not load from a file that is none', async () => {
    const text = config(['X__0'], ['OUT__0']);
    const model = await models.write('bad', text, { '1/model.pt': 'not a model' });
    await expect(
      models.load(model, text, { backendConfig: { interpreter: torchPython ?? '' } }),
    ).rejects.toThrow(/RuntimeError/);
  });

  it('answer an exception of forward as an error, and go on', async () => {
    const model = await load('refuse', config(['values'], ['OUT__0']));
    await expect(model.infer(testRequest([floats('values', [1], [-1])]))).rejects.toThrow(
      /negative values/,
    );
    const { outputs } = await model.infer(testRequest([floats('values', [1], [1])]));
    expect(asFloats(outputs[0])).toEqual([1]);
  });

  it('exchange tensors with model.py through DLPack, BF16 too', async () => {
    const text = `backend: "python"
input { name: "A" data_type: TYPE_BF16 dims: [ -1 ] } output { name: "B" data_type: TYPE_BF16 dims: [ -1 ] }
output { name: "C" data_type: TYPE_FP32 dims: [ -1 ] }`;
    const model = await models.write('m', text, {
      '1/model.py': `
import torch
import triton_python_backend_utils as pb_utils
class TritonPythonModel:
    def execute(self, requests):
        a = torch.utils.dlpack.from_dlpack(requests[0].inputs()[0].to_dlpack())
        doubled = torch.stack([a * 2, a])[:, 0]
        outputs = [pb_utils.Tensor.from_dlpack("B", torch.utils.dlpack.to_dlpack(doubled)),
                   pb_utils.Tensor.from_dlpack("C", doubled.float())]
        return [pb_utils.InferenceResponse(outputs)]
`,
    });
    const loaded = await models.load(model, text, {
      backendConfig: { interpreter: torchPython ?? '' },
    });
    const input: Tensor = {
      name: 'A',
      datatype: 'BF16',
      shape: [2],
      encoding: 'raw',
      bytes: Uint8Array.of(0x80, 0x3f, 0, 0x40),
    };
    const { outputs } = await loaded.infer(testRequest([input]));
    expect([...(outputs[0]?.bytes ?? [])]).toEqual([0, 0x40, 0x80, 0x3f]);
    expect(asFloats(outputs[1])).toEqual([2, 1]);
  });
});

describe.skipIf(tensorflowPython === undefined)('TensorFlow models (need tensorflow)', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'nereid-tensorflow-'));
  beforeAll(() => {
    execFileSync(tensorflowPython ?? '', [
      path.join(scripts, 'build_tensorflow_models.py'),
      folder,
    ]);
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  it.each([
    [
      'a SavedModel',
      'tensorflow_savedmodel',
      'savedmodel',
      ['left', 'right'],
      ['sum', 'difference'],
    ],
    ['a GraphDef', 'tensorflow_graphdef', 'graphdef', ['left', 'right'], ['sum', 'difference']],
  ])('answer from %s', async (_what, platform, name, inputs, outputs) => {
    const list = (kind: string, names: readonly string[]) =>
      names.map((tensor) => `${kind} { name: "${tensor}" data_type: TYPE_FP32 dims: [ 2 ] }`);
    const text = [
      `platform: "${platform}" max_batch_size: 4`,
      ...list('input', inputs),
      ...list('output', outputs),
    ].join('\n');
    const model = await models.load(path.join(folder, name), text, {
      backendConfig: { interpreter: tensorflowPython ?? '' },
    });
    const results = await model.instance.execute(
      [1, 10].map((value) =>
        testRequest([floats('left', [1, 2], [value, 2]), floats('right', [1, 2], [1, 1])]),
      ),
    );
    expect(
      results.map((result) =>
        result.type === 'response' ? result.response.outputs.map(asFloats) : result,
      ),
    ).toEqual([
      [
        [2, 3],
        [0, 1],
      ],
      [
        [11, 3],
        [9, 1],
      ],
    ]);
  });
});

describe('a framework that the interpreter lacks', () => {
  it.each([
    ['pytorch_libtorch', 'model.pt', 'torch', 'pytorch'],
    ['tensorflow_savedmodel', 'model.savedmodel', 'tensorflow', 'tensorflow'],
    ['tensorrt_plan', 'model.plan', 'tensorrt', 'tensorrt'],
  ])(
    'is named in the load error of a model for %s',
    async (platform, file, packageName, backend) => {
      const text = `platform: "${platform}"
input { name: "X__0" data_type: TYPE_FP32 dims: [ 1 ] } output { name: "Y__0" data_type: TYPE_FP32 dims: [ 1 ] }`;
      const folder = await models.write('m', text, {
        [`1/${file}`]: '',
        // In front of an installed one.
        [`hidden/${packageName}.py`]: 'raise ImportError("hidden")',
        python: '#!/bin/sh\nPYTHONPATH=$(dirname "$0")/hidden exec "$REAL_PYTHON" "$@"\n'.replace(
          '$REAL_PYTHON',
          testInterpreter(),
        ),
      });
      const interpreter = path.join(folder, 'python');
      await chmod(interpreter, 0o755);
      const backendConfig = { interpreter };
      await expect(models.load(folder, text, { backendConfig })).rejects.toThrow(
        new RegExp(
          `${backend} models need the Python package '${packageName}', which \\S+ cannot import ` +
            `.* name an interpreter that has it with --backend-config=${backend},interpreter=PATH`,
        ),
      );
    },
  );
});
