import { fromJson, toBinary } from '@bufbuild/protobuf';
import type { Client, ClientDuplexStream } from '@grpc/grpc-js';
import { messageDescriptor } from '../../src/proto/descriptors.js';

/** A `ModelInferRequest` with INT32 inputs of one element. */
export function inferRequest(model: string, values: Readonly<Record<string, number>>): Buffer {
  const descriptor = messageDescriptor('inference.ModelInferRequest');
  const message = fromJson(descriptor, {
    model_name: model,
    inputs: Object.keys(values).map((name) => ({ name, datatype: 'INT32', shape: [1] })),
    raw_input_contents: Object.values(values).map((value) =>
      Buffer.from(Int32Array.of(value).buffer).toString('base64'),
    ),
  });
  return Buffer.from(toBinary(descriptor, message));
}

/** Messages in their binary form. */
export type BytesStream = ClientDuplexStream<Buffer, Buffer>;

export const bytes = (message: Buffer): Buffer => message;

/** Opens a `ModelStreamInfer`. */
export function openStream(client: Client): BytesStream {
  const path = '/inference.GRPCInferenceService/ModelStreamInfer';
  const stream = client.makeBidiStreamRequest<Buffer, Buffer>(path, bytes, bytes);
  stream.on('error', () => {
    // The status tells it.
  });
  return stream;
}
