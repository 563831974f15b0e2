import type {
  ModelMetadata,
  RepositoryIndexEntry,
  ServerMetadata,
  TensorMetadata,
} from '../inference/model-metadata.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { ListSerializer } from './list-serializer.js';

/** `GET /v2`. */
export function serverMetadataBody(metadata: ServerMetadata): Uint8Array {
  const { name, version, extensions } = metadata;
  return toBody(JSON.stringify({ name, version, extensions }));
}

/** `GET /v2/models/M`. */
export function modelMetadataBody(metadata: ModelMetadata): Uint8Array {
  const { name, versions, platform, inputs, outputs } = metadata;
  return toBody(
    JSON.stringify({
      name,
      versions,
      platform,
      inputs: inputs.map(toTensor),
      outputs: outputs.map(toTensor),
    }),
  );
}

/** `GET /v2/models/M/config`: the configuration is the wire document itself. */
export function modelConfigBody(config: ModelConfig): Uint8Array {
  return toBody(JSON.stringify(config));
}

/** `POST /v2/repository/index`. A model that was never loaded has only its name. */
export class RepositoryIndexWriter {
  readonly #serializer = new ListSerializer<readonly RepositoryIndexEntry[]>(indexSchema);

  body(entries: readonly RepositoryIndexEntry[]): Uint8Array {
    return toBody(this.#serializer.serialize(entries.map(toIndexRow), entries.length));
  }
}

function toTensor({ name, datatype, shape }: TensorMetadata): TensorMetadata {
  return { name, datatype, shape };
}

/** The members in the order of the wire; those that are undefined are not printed. */
function toIndexRow(entry: RepositoryIndexEntry): RepositoryIndexEntry {
  const { name, version, state, reason } = entry;
  return {
    name,
    ...(version === undefined ? {} : { version }),
    ...(state === undefined ? {} : { state }),
    ...(reason === undefined ? {} : { reason }),
  };
}

function toBody(text: string): Uint8Array {
  return Buffer.from(text, 'utf8');
}

const indexSchema = {
  type: 'array',
  items: {
    type: 'object',
    properties: {
      name: { type: 'string' },
      version: { type: 'string' },
      state: { type: 'string' },
      reason: { type: 'string' },
    },
  },
} as const;
