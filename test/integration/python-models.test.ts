import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import {
  asFloats,
  asInts,
  configText,
  floats,
  ints,
  PythonModels,
  testRequest,
} from '../backends/python/python-models.js';

const repository = fileURLToPath(new URL('../conformance/golden/repo/', import.meta.url));

const models = new PythonModels();
afterEach(() => models.close());

async function loadRecorded(name: string) {
  const folder = path.join(repository, name);
  const text = await readFile(path.join(folder, 'config.pbtxt'), 'utf8').catch(() => '');
  return models.load(folder, text);
}

describe('a Python model', () => {
  it('answers a request with its outputs in its own order', async () => {
    const model = await loadRecorded('add_sub');
    const { outputs } = await model.infer(
      testRequest([floats('INPUT0', [4], [1, 2, 3, 4]), floats('INPUT1', [4], [1, 1, 1, 1])]),
    );
    expect(outputs.map(({ name, datatype, shape }) => [name, datatype, shape])).toEqual([
      ['OUTPUT0', 'FP32', [4]],
      ['OUTPUT1', 'FP32', [4]],
    ]);
    expect(asFloats(outputs[0])).toEqual([2, 3, 4, 5]);
    expect(asFloats(outputs[1])).toEqual([0, 1, 2, 3]);
  });

  it('gets one call a request when it does not batch', async () => {
    const model = await models.loadSource(
      configText(['A INT32 1'], ['N INT32 1']),
      `
class TritonPythonModel:
    def execute(self, requests):
        if pb_utils.get_input_tensor_by_name(requests[0], "A").as_numpy()[0] < 0:
            raise ValueError("negative")
        return [pb_utils.InferenceResponse([
            pb_utils.Tensor("N", np.array([len(requests)], np.int32))]) for _ in requests]
`,
    );
    const results = await model.instance.execute(
      [1, -1, 2].map((value) => testRequest([ints('A', [1], [value])])),
    );
    expect(results.map(({ type }) => type)).toEqual(['response', 'error', 'response']);
    expect(results[0]?.type === 'response' && asInts(results[0].response.outputs[0])).toEqual([1]);
  });
});
