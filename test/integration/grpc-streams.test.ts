import { fromBinary, toJson } from '@bufbuild/protobuf';
import { Client, credentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { messageDescriptor } from '../../src/proto/descriptors.js';
import { type BytesStream, bytes, inferRequest, openStream } from '../support/infer-streams.js';
import { ServerProcess } from '../support/server-process.js';
import { WrittenRepository } from '../support/written-repository.js';

const streamCount = 1000;
const responseCount = 100;
const mebibyte = 1024 * 1024;
const slowStreamBytes = 1024 * mebibyte;
const growthBytesMax = 64 * mebibyte;

/** Answers with as many responses, of as many bytes, as it is asked for; -1 is no end. */
const repeat = {
  config: `model_transaction_policy { decoupled: true }
    input [
      { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] },
      { name: "BYTES" data_type: TYPE_INT32 dims: [ 1 ] }
    ]
    output [{ name: "OUT" data_type: TYPE_UINT8 dims: [ -1 ] }]`,
  source: `export default class {
    async *execute([request]) {
      const [count] = request.getInput('COUNT').data;
      const [bytes] = request.getInput('BYTES').data;
      for (let index = 0; count < 0 || index < count; index++) {
        yield { outputs: [{ name: 'OUT', shape: [bytes], data: new Uint8Array(bytes).fill(index) }] };
      }
    }
  }`,
};

/** Takes half a second. */
const slow = {
  config: `input [{ name: "X" data_type: TYPE_INT32 dims: [ 1 ] }]
    output [{ name: "X" data_type: TYPE_INT32 dims: [ 1 ] }]`,
  source: `export default class {
    async execute([request]) {
      await new Promise((resolve) => setTimeout(resolve, 500));
      return [{ outputs: [{ name: 'X', shape: [1], data: request.getInput('X').data }] }];
    }
  }`,
};

function statusOf(stream: BytesStream): Promise<number> {
  return new Promise((resolve) => {
    stream.on('status', ({ code }) => resolve(code));
  });
}

/** First byte of the tensor of a response. */
function firstByte(message: Buffer): number | undefined {
  const descriptor = messageDescriptor('inference.ModelStreamInferResponse');
  const document = toJson(descriptor, fromBinary(descriptor, message), { useProtoFieldName: true });
  const [raw] = (document as { infer_response: { raw_output_contents: string[] } }).infer_response
    .raw_output_contents;
  return Buffer.from(raw ?? '', 'base64')[0];
}

describe('streams of the compiled server', () => {
  let repository: WrittenRepository;
  let server: ServerProcess;
  let client: Client;

  beforeAll(async () => {
    repository = await WrittenRepository.create({ repeat, slow });
    server = await ServerProcess.start([`--model-repository=${repository.directory}`]);
    client = new Client(server.grpcTarget, credentials.createInsecure(), {
      'grpc.max_receive_message_length': -1,
    });
  });

  afterAll(async () => {
    client.close();
    await server.stop();
    await repository.remove();
  });

  it('give each of a thousand clients every response, in order', async () => {
    const request = inferRequest('repeat', { COUNT: responseCount, BYTES: 1 });
    const streams = Array.from({ length: streamCount }, async () => {
      const stream = openStream(client);
      const read: (number | undefined)[] = [];
      stream.on('data', (message: Buffer) => read.push(firstByte(message)));
      const status = statusOf(stream);
      stream.write(request);
      stream.end();
      expect(await status).toBe(0);
      return read;
    });
    const expected = Array.from({ length: responseCount }, (_, index) => index);
    for (const read of await Promise.all(streams)) expect(read).toEqual(expected);
  }, 120_000);

  it('do not grow the memory for a client that reads slowly', async () => {
    // What a stream leaves behind is collected when some of it has gathered, in each thread: how
    // much that is shows a stream that is read as fast as it comes.
    const fast = openStream(client);
    fast.on('data', () => undefined);
    fast.write(inferRequest('repeat', { COUNT: 128, BYTES: mebibyte }));
    fast.end();
    expect(await statusOf(fast)).toBe(0);
    const before = server.residentBytes();
    const stream = openStream(client);
    let readBytes = 0;
    let most = before;
    stream.on('data', (message: Buffer) => {
      readBytes += message.byteLength;
      most = Math.max(most, server.residentBytes());
      stream.pause();
      setTimeout(() => stream.resume(), 5);
    });
    const status = statusOf(stream);
    stream.write(inferRequest('repeat', { COUNT: slowStreamBytes / mebibyte, BYTES: mebibyte }));
    stream.end();
    await new Promise((resolve) => {
      stream.once('end', resolve);
    });
    expect(await status).toBe(0);
    expect(readBytes).toBeGreaterThan(slowStreamBytes);
    expect(most - before).toBeLessThan(growthBytesMax);
  }, 120_000);

  it('end with the server, which first answers what was begun', async () => {
    const idle = openStream(client);
    const idleStatus = statusOf(idle);
    idle.write(inferRequest('repeat', { COUNT: 1, BYTES: 1 }));
    await new Promise((resolve) => {
      idle.once('data', resolve);
    });
    const answered = new Promise<number>((resolve) => {
      client.makeUnaryRequest<Buffer, Buffer>(
        '/inference.GRPCInferenceService/ModelInfer',
        bytes,
        bytes,
        inferRequest('slow', { X: 1 }),
        (error) => resolve(error?.code ?? 0),
      );
    });
    await new Promise((resolve) => {
      setTimeout(resolve, 100);
    });
    const started = performance.now();
    expect(await server.stop()).toBe(0);
    expect(await answered).toBe(0);
    expect(await idleStatus).toBe(14);
    expect(performance.now() - started).toBeLessThan(15_000);
  });
});
