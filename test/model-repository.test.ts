import { readdirSync, readFileSync, statSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import * as onnx from 'onnxruntime-node';
import { describe, expect, it } from 'vitest';

const root = new URL('..', import.meta.url).pathname;
const repository = `${root}model_repository`;

interface DigitRequest {
  readonly inputs: readonly [
    { readonly name: string; readonly shape: readonly number[]; readonly data: number[][] },
  ];
}

function readDigit(digit: number): DigitRequest {
  return JSON.parse(readFileSync(`${root}examples/digits/digit-${digit}.json`, 'utf8'));
}

describe('the shipped model repository', () => {
  it('holds models that need neither Python nor a download', () => {
    const files = readdirSync(repository, { recursive: true, encoding: 'utf8' });
    expect(files.filter((file) => file.endsWith('.py'))).toEqual([]);
    expect(statSync(`${repository}/digits/1/model.onnx`).size).toBeLessThan(300_000);
  });

  it('describes every model in its README', () => {
    const readme = readFileSync(`${repository}/README.md`, 'utf8');
    for (const entry of readdirSync(repository, { withFileTypes: true })) {
      if (entry.isDirectory()) expect(readme).toMatch(new RegExp(`| \`${entry.name}\` +|`));
    }
  });

  it('classifies each of the ten sample digits', async () => {
    const session = await onnx.InferenceSession.create(`${repository}/digits/1/model.onnx`);
    const pixels = Array.from({ length: 10 }, (_, digit) => readDigit(digit).inputs[0].data).flat(
      2,
    );
    const image = new onnx.Tensor('float32', Float32Array.from(pixels), [10, 8, 8]);
    const { probabilities } = await session.run({ image });
    await session.release();
    if (probabilities === undefined) throw new Error('no probabilities');
    const values = [...(probabilities.data as Float32Array)];
    const found = Array.from({ length: 10 }, (_, row) => {
      const rowValues = values.slice(row * 10, row * 10 + 10);
      return rowValues.indexOf(Math.max(...rowValues));
    });
    expect(found).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('has one label for each digit, in order', () => {
    const labels = readFileSync(`${repository}/digits/labels.txt`, 'utf8').trim().split('\n');
    expect(labels).toHaveLength(10);
    expect([labels[0], labels[7], labels[9]]).toEqual(['zero', 'seven', 'nine']);
  });

  it('adds and subtracts in ONNX and in JavaScript alike', async () => {
    const left = Float32Array.from({ length: 16 }, (_, index) => index * 1.5);
    const right = Float32Array.from({ length: 16 }, (_, index) => index - 8);
    const session = await onnx.InferenceSession.create(`${repository}/add_sub/1/model.onnx`);
    const outputs = await session.run({
      INPUT0: new onnx.Tensor('float32', left, [1, 16]),
      INPUT1: new onnx.Tensor('float32', right, [1, 16]),
    });
    await session.release();
    const module = await import(pathToFileURL(`${repository}/add_sub_js/1/model.js`).href);
    const model = new module.default();
    model.initialize({ modelConfig: { output: [{ name: 'OUTPUT0' }, { name: 'OUTPUT1' }] } });
    const inputs: Record<string, unknown> = {
      INPUT0: { shape: [1, 16], data: left },
      INPUT1: { shape: [1, 16], data: right },
    };
    const [response] = model.execute([{ getInput: (name: string) => inputs[name] }]);
    for (const [index, name] of ['OUTPUT0', 'OUTPUT1'].entries()) {
      expect(response.outputs[index]).toMatchObject({ name, datatype: 'FP32', shape: [1, 16] });
      expect(response.outputs[index].data).toEqual(outputs[name]?.data);
    }
  });
});
