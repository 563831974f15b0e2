import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as onnx from 'onnxruntime-node';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { mlpLayers, writeMlpRepository } from '../../bench/mlp-model.js';

describe('writeMlpRepository', () => {
  let directory = '';
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nereid-mlp-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it('writes the same model each time, of about two million weights, that onnxruntime runs', async () => {
    const file = await writeMlpRepository(directory);
    const first = readFileSync(file);
    await writeMlpRepository(directory);
    expect(readFileSync(file).equals(first)).toBe(true);
    expect(first.length / 4).toBeGreaterThan(1.8e6);
    const session = await onnx.InferenceSession.create(file);
    const x = new onnx.Tensor('float32', new Float32Array(2 * 784).fill(0.5), [
      2,
      mlpLayers[0] ?? 0,
    ]);
    const { y } = await session.run({ x });
    await session.release();
    expect(y?.dims).toEqual([2, 10]);
    const values = [...((y?.data ?? []) as Float32Array)];
    // Rows of equal inputs have equal outputs, and not all outputs are zero.
    expect(values.slice(0, 10)).toEqual(values.slice(10));
    expect(values.some((value) => Math.abs(value) > 1e-3)).toBe(true);
  });
});
