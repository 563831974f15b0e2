import {
  type ClientHttp2Session,
  connect,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from 'node:http2';
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

  it('writes what a header cannot hold as percents', async () => {
    const answer = await call({ ':path': '/a%zz\u00e4' }, emptyMessage);
    expect(answer['grpc-message']).toMatch(/a%25zz/);
  });
});
