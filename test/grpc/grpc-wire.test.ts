import {
  type ClientHttp2Session,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
import { connect as connectSocket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RunningGrpcServer } from './running-grpc-server.js';

let front: RunningGrpcServer;
let session: ClientHttp2Session;

beforeAll(async () => {
  front = await RunningGrpcServer.start();
  session = connect(`http://127.0.0.1:${front.port}`);
});

afterAll(() => {
  session.destroy();
  front.stop();
});

const live = '/inference.GRPCInferenceService/ServerLive';
const emptyMessage = Buffer.alloc(5);

/** A frame of HTTP/2. */
function frame(type: number, flags: number, id: number, payload: readonly number[]): Buffer {
  return Buffer.from([0, 0, payload.length, type, flags, 0, 0, 0, id, ...payload]);
}

/** Headers and trailers of the answer as one. */
function call(headers: OutgoingHttpHeaders, body: Buffer): Promise<IncomingHttpHeaders> {
  return new Promise((resolve, reject) => {
    const stream = session.request({
      ':method': 'POST',
      ':path': live,
      'content-type': 'application/grpc',
      te: 'trailers',
      ...headers,
    });
    let answer: IncomingHttpHeaders = {};
    const add = (more: IncomingHttpHeaders): void => {
      answer = { ...answer, ...more };
    };
    stream.on('response', add).on('trailers', add).on('error', reject);
    stream.on('close', () => resolve(answer));
    stream.resume();
    stream.end(body);
  });
}

describe('a call on the wire', () => {
  it('ends with its status in trailers', async () => {
    expect(await call({}, emptyMessage)).toMatchObject({
      ':status': 200,
      'content-type': 'application/grpc+proto',
      'grpc-accept-encoding': 'identity,deflate,gzip',
      'grpc-status': '0',
    });
  });

  it.each([
    ['of an unknown method', { ':path': '/no.Such/Method' }, emptyMessage, '12'],
    ['of an unknown encoding', { 'grpc-encoding': 'snappy' }, emptyMessage, '12'],
    ['with a deadline that is none', { 'grpc-timeout': '1' }, emptyMessage, '13'],
    ['with a deadline of nine digits', { 'grpc-timeout': '123456789S' }, emptyMessage, '13'],
    ['without a message', {}, Buffer.alloc(0), '12'],
    ['with two messages', {}, Buffer.alloc(10), '12'],
    ['whose message is cut short', {}, Buffer.from([0, 0, 0, 0, 9, 1]), '13'],
    ['with the longest deadline', { 'grpc-timeout': '99999999H' }, emptyMessage, '0'],
    ['with an announced encoding that is not used', { 'grpc-encoding': 'gzip' }, emptyMessage, '0'],
  ])('%s ends with the status of gRPC', async (_, headers, body, status) => {
    expect(await call(headers, body)).toMatchObject({ ':status': 200, 'grpc-status': status });
  });

  it.each([
    ['by another method', { ':method': 'PUT' }],
    ['of another content', { 'content-type': 'application/json' }],
  ])('%s is no call', async (_, headers) => {
    expect(await call(headers, emptyMessage)).toMatchObject({ ':status': 415 });
  });

  it.each([
    ['a call', 'application/grpc'],
    ['what is no call', 'text/plain'],
  ])('that is taken back in the packet that begins it harms nobody: %s', async (_, contentType) => {
    const [headers, reset, settings] = [1, 3, 4];
    const frames = [Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(settings, 0, 0, [])];
    // `:method: POST`, `:scheme: http` and `:path: /` of the static table, then content-type.
    const block = [0x83, 0x86, 0x84, 0x0f, 0x10, contentType.length, ...Buffer.from(contentType)];
    for (let id = 1; id < 100; id += 2) {
      frames.push(frame(headers, 4, id, block));
      frames.push(frame(reset, 0, id, [0, 0, 0, constants.NGHTTP2_INTERNAL_ERROR]));
    }
    const socket = connectSocket(front.port, '127.0.0.1');
    socket.write(Buffer.concat([...frames, frame(6, 0, 0, Array(8).fill(7))]));
    // The answer to the ping comes when everything before it was seen.
    await new Promise<void>((resolve) => {
      socket.on('data', (bytes) => {
        if (bytes.includes(Buffer.alloc(8, 7))) resolve();
      });
    });
    socket.destroy();
    expect(await call({}, emptyMessage)).toMatchObject({ 'grpc-status': '0' });
  });

  it('writes what a header cannot hold as percents', async () => {
    const answer = await call({ ':path': '/a%zz\u00e4' }, emptyMessage);
    expect(answer['grpc-message']).toMatch(/a%25zz/);
  });
});
