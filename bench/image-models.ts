import { execFile } from 'node:child_process';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { encodeOnnx } from './onnx-file.js';
import { createOnnxScenario } from './onnx-scenario.js';
import type { Scenario } from './scenario.js';
import { v2Binary } from './wire-form.js';

/** A picture as an image classifier wants it: 602 kB of FP32. */
export const imageDims: readonly number[] = [3, 224, 224];

const identityConfig = `max_batch_size: 8
input [ { name: "images" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
output [ { name: "copies" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
`;

const identityModel = `export default class Identity {
  execute(requests) {
    return requests.map((request) => {
      const { datatype, shape, data } = request.getInput('images');
      return { outputs: [{ name: 'copies', datatype, shape, data }] };
    });
  }
}
`;

const meanConfig = `platform: "onnxruntime_onnx"
max_batch_size: 8
input [ { name: "images" data_type: TYPE_FP32 dims: [ 3, -1, -1 ] } ]
output [ { name: "means" data_type: TYPE_FP32 dims: [ 3, 1, 1 ] } ]
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
parameters { key: "intra_op_thread_count" value { string_value: "1" } }
`;

/**
 * Writes three models that cost next to nothing themselves, so that what is measured is the way of
 * their tensors: `identity_onnx` and `identity_js` give pictures back, `image_mean` the means of
 * their three colours, at any size.
 */
export async function writeImageRepository(directory: string): Promise<void> {
  const identity = encodeOnnx({
    name: 'identity',
    nodes: [{ operator: 'Identity', inputs: ['images'], output: 'copies' }],
    weights: [],
    input: { name: 'images', dims: [3, 224, 224] },
    output: { name: 'copies', dims: [3, 224, 224] },
  });
  const mean = encodeOnnx({
    name: 'image_mean',
    nodes: [{ operator: 'GlobalAveragePool', inputs: ['images'], output: 'means' }],
    weights: [],
    input: { name: 'images', dims: [3, 'height', 'width'] },
    output: { name: 'means', dims: [3, 1, 1] },
  });
  await writeModel(directory, 'identity_onnx', `platform: "onnxruntime_onnx"\n${identityConfig}`, {
    'model.onnx': identity,
  });
  await writeModel(directory, 'identity_js', `backend: "javascript"\n${identityConfig}`, {
    'model.js': identityModel,
  });
  await writeModel(directory, 'image_mean', meanConfig, { 'model.onnx': mean });
}

/** Where `writeImageRepository` put a model. */
export function modelFileIn(directory: string, model: string): string {
  return join(directory, model, '1', 'model.onnx');
}

async function writeModel(
  directory: string,
  name: string,
  config: string,
  files: Readonly<Record<string, string | Buffer>>,
): Promise<void> {
  const version = join(directory, name, '1');
  await mkdir(version, { recursive: true });
  await writeFile(join(directory, name, 'config.pbtxt'), config);
  for (const [file, content] of Object.entries(files)) {
    await writeFile(join(version, file), content);
  }
}

/**
 * EfficientNet-Lite0, as the example has it, with `threads` of onnxruntime for its one instance:
 * writes it into `directory/repository` and makes requests of 602 kB to it.
 */
export async function createEfficientNetScenario(
  root: string,
  directory: string,
  threads: number,
): Promise<Scenario> {
  return createOnnxScenario({
    name: 'EfficientNet-Lite0, 602 kB',
    model: 'efficientnet_lite0',
    modelFile: await writeEfficientNetRepository(root, directory, threads),
    input: 'images',
    dims: imageDims,
    wire: v2Binary,
  });
}

async function writeEfficientNetRepository(
  root: string,
  directory: string,
  threads: number,
): Promise<string> {
  const made = join(directory, 'made');
  await promisify(execFile)(join(root, '.venv/bin/python'), [
    join(root, 'examples/imagenet/convert.py'),
    made,
  ]);
  const repository = join(directory, 'repository');
  const version = join(repository, 'efficientnet_lite0', '1');
  await mkdir(version, { recursive: true });
  const file = join(version, 'model.onnx');
  await copyFile(join(made, '1', 'model.onnx'), file);
  await writeFile(
    join(repository, 'efficientnet_lite0', 'config.pbtxt'),
    `platform: "onnxruntime_onnx"
max_batch_size: 8
dynamic_batching { }
instance_group [ { kind: KIND_CPU count: 1 } ]
parameters { key: "intra_op_thread_count" value { string_value: "${threads}" } }
`,
  );
  return file;
}
