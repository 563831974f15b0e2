import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { invalidArg } from '../errors.js';
import { elementBytes, fromConfigDataType } from '../inference/datatype.js';
import { type InferenceRequest, noParameters } from '../inference/infer-request.js';
import { elementCount } from '../inference/shape.js';
import type { Tensor } from '../inference/tensor.js';
import type { ModelConfig, ModelWarmup, ModelWarmupInput } from '../model-config/model-config.js';

/** One warm-up sample, to be run `count` times on every instance. */
export interface WarmupSample {
  readonly name: string;
  readonly count: number;
  readonly request: InferenceRequest;
}

const warmupFolder = 'warmup';

/**
 * The samples of `model_warmup` as requests. Data files lie in the model's `warmup` folder and hold
 * exactly the tensor's bytes, BYTES elements behind their lengths. A sample with `batch_size` 0 is
 * left out for a model that batches, as it would run nothing. INVALID_ARG names what is wrong.
 */
export async function readWarmupSamples(
  config: ModelConfig,
  version: string,
  modelDirectory: string,
): Promise<readonly WarmupSample[]> {
  const isBatching = config.max_batch_size > 0;
  const samples = config.model_warmup.filter((sample) => !isBatching || sample.batch_size > 0);
  return Promise.all(
    samples.map(async (sample) => ({
      name: sample.name,
      count: Math.max(1, sample.count),
      request: {
        modelName: config.name,
        modelVersion: version,
        id: '',
        parameters: noParameters,
        priority: 0,
        timeoutUs: 0,
        sequence: undefined,
        inputs: await readInputs(config, sample, modelDirectory),
        requestedOutputs: [],
        prefersJsonText: false,
      },
    })),
  );
}

function readInputs(
  config: ModelConfig,
  sample: ModelWarmup,
  modelDirectory: string,
): Promise<readonly Tensor[]> {
  return Promise.all(
    Object.entries(sample.inputs).map(async ([name, input]): Promise<Tensor> => {
      const where = `model '${config.name}', warm-up sample '${sample.name}', input '${name}'`;
      const datatype = fromConfigDataType(input.data_type);
      if (datatype === undefined)
        throw invalidArg(`${where}: unknown data_type ${input.data_type}`);
      if (input.dims.some((dim) => dim < 0)) {
        throw invalidArg(`${where}: dims [${input.dims.join(',')}] must all be given, not -1`);
      }
      const shape = config.max_batch_size > 0 ? [sample.batch_size, ...input.dims] : input.dims;
      const elements = elementCount(shape);
      const byteLength = datatype === 'BYTES' ? elements * 4 : elements * elementBytes[datatype];
      const bytes =
        input.input_data_file === undefined
          ? generatedData(input, datatype === 'BYTES', byteLength)
          : await readDataFile(input.input_data_file, modelDirectory, where);
      if (datatype !== 'BYTES' && bytes.byteLength !== byteLength) {
        throw invalidArg(
          `${where}: file '${input.input_data_file}' has ${bytes.byteLength} bytes, expected ${byteLength} for ${datatype} [${shape.join(',')}]`,
        );
      }
      return { name, datatype, shape, encoding: 'raw', bytes };
    }),
  );
}

/** Zeros (for BYTES: empty strings), or random bytes below 60, which make a finite number of every datatype. */
function generatedData(input: ModelWarmupInput, isBytes: boolean, byteLength: number): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  if (input.random_data !== true || isBytes) return bytes;
  const isBool = input.data_type === 'TYPE_BOOL';
  for (let index = 0; index < byteLength; index += 1) {
    bytes[index] = Math.floor(Math.random() * (isBool ? 2 : 60));
  }
  return bytes;
}

async function readDataFile(
  fileName: string,
  modelDirectory: string,
  where: string,
): Promise<Uint8Array> {
  const folder = path.join(modelDirectory, warmupFolder);
  const file = path.resolve(folder, fileName);
  if (!file.startsWith(folder + path.sep)) {
    throw invalidArg(
      `${where}: file '${fileName}' must lie in the model's '${warmupFolder}' folder`,
    );
  }
  try {
    return await readFile(file);
  } catch (error) {
    throw invalidArg(`${where}: file '${fileName}' cannot be read`, error);
  }
}
