import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** What a model's `config.pbtxt` says beside the backend, and its `1/model.mjs` or `1/model.py`. */
export interface WrittenModel {
  readonly config: string;
  /** Empty for an ensemble. */
  readonly source: string;
  /** JavaScript where it isn't named. */
  readonly backend?: 'javascript' | 'python' | 'ensemble';
}

/** A model repository in a temporary folder. */
export class WrittenRepository {
  readonly directory: string;

  private constructor(directory: string) {
    this.directory = directory;
  }

  static async create(models: Readonly<Record<string, WrittenModel>>): Promise<WrittenRepository> {
    const repository = new WrittenRepository(await mkdtemp(join(tmpdir(), 'nereid-models-')));
    for (const [name, model] of Object.entries(models)) await repository.write(name, model);
    return repository;
  }

  /** Adds the model, or replaces its files. */
  async write(name: string, model: WrittenModel): Promise<void> {
    const { config, source, backend = 'javascript' } = model;
    const kind = backend === 'ensemble' ? 'platform' : 'backend';
    const fileName = backend === 'python' ? 'model.py' : 'model.mjs';
    await mkdir(join(this.directory, name, '1'), { recursive: true });
    await writeFile(join(this.directory, name, '1', fileName), source);
    await writeFile(join(this.directory, name, 'config.pbtxt'), `${kind}: "${backend}"\n${config}`);
  }

  remove(): Promise<void> {
    return rm(this.directory, { recursive: true, force: true });
  }
}

export interface InferAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** The first element of the first output. */
  readonly value: unknown;
  readonly error: string | undefined;
}

interface InferBody {
  readonly outputs?: readonly { readonly data: readonly unknown[] }[];
  readonly error?: string;
}

/** Sends one INT32 `X` to a model and reads the first element of its first output. */
export async function inferOne(
  httpUrl: string,
  model: string,
  x: number,
  parameters: Readonly<Record<string, unknown>> = {},
): Promise<InferAnswer> {
  const response = await fetch(`${httpUrl}/v2/models/${model}/infer`, {
    method: 'POST',
    // A connection that is kept holds the end of the server.
    headers: { connection: 'close' },
    body: JSON.stringify({
      parameters,
      inputs: [{ name: 'X', datatype: 'INT32', shape: [1], data: [x] }],
    }),
  });
  // The server's own answer to an infer request.
  const body = (await response.json()) as InferBody;
  const { status, headers } = response;
  return { status, headers, value: body.outputs?.[0]?.data[0], error: body.error };
}

/** The tensors that {@link inferOne} sends and reads, for a model that does not batch. */
export function oneNumber(outputType = 'TYPE_STRING'): string {
  return (
    'input { name: "X" data_type: TYPE_INT32 dims: 1 }\n' +
    `output { name: "Y" data_type: ${outputType} dims: 1 }\n`
  );
}
