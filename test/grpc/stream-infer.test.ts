import type { JsonValue } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { internal, unavailable } from '../../src/errors.js';
import { fp32, type HeldRequest, response } from '../http/fake-inference-server.js';
import type { GrpcClient } from './grpc-client.js';
import { inferRequest, RunningGrpcServer } from './running-grpc-server.js';

let running: RunningGrpcServer;
let client: GrpcClient;

beforeAll(async () => {
  running = await RunningGrpcServer.start();
  client = running.connect();
});

afterAll(() => running.stop());

const base64 = (value: number): string =>
  Buffer.from(Float32Array.of(value).buffer).toString('base64');

/** A message with one response; `isFinal` is what it says of itself. */
function answered(id: string, value: number, isFinal: boolean): JsonValue {
  return {
    infer_response: {
      model_name: 'm',
      model_version: '1',
      id,
      parameters: { triton_final_response: { bool_param: isFinal } },
      outputs: [{ name: 'X', datatype: 'FP32', shape: ['1'] }],
      raw_output_contents: [base64(value)],
    },
  };
}

function respond({ request, handler }: HeldRequest, value: number): void {
  handler.respond({ ...response([fp32('X', [value])]), id: request.id });
}

const withId = (modelName: string, id: string) => inferRequest(modelName, [1], { id });

const wantsEnd = { parameters: { triton_enable_empty_final_response: { bool_param: true } } };

describe('ModelStreamInfer', () => {
  it('answers requests to models that are not decoupled in their order', async () => {
    const stream = client.stream('ModelStreamInfer');
    for (const id of ['a', 'b', 'c']) stream.send(withId('held', id));
    const a = await running.server.nextHeld();
    const b = await running.server.nextHeld();
    const c = await running.server.nextHeld();
    for (const [held, value] of [
      [c, 3],
      [b, 2],
      [a, 1],
    ] as const) {
      respond(held, value);
      held.handler.complete();
    }
    expect(await stream.next()).toEqual(answered('a', 1, true));
    expect(await stream.next()).toEqual(answered('b', 2, true));
    expect(await stream.next()).toEqual(answered('c', 3, true));
    stream.halfClose();
    expect(await stream.ended()).toEqual({ code: 0, details: '', rest: [] });
  });

  it('keeps failures in the order too, and stays open', async () => {
    const stream = client.stream('ModelStreamInfer');
    stream.send(withId('held', 'a'));
    const a = await running.server.nextHeld();
    stream.send(withId('nope', 'b'));
    running.server.refusal = unavailable('Exceeds maximum queue size');
    stream.send(withId('refusing', 'c'));
    stream.send({ ...withId('echo', 'd'), parameters: { triton_x: { bool_param: true } } });
    stream.send(withId('held', 'e'));
    const e = await running.server.nextHeld();
    respond(e, 5);
    e.handler.complete();
    respond(a, 1);
    a.handler.complete();
    expect(await stream.next()).toEqual(answered('a', 1, true));
    expect(await stream.next()).toEqual({
      error_message: "Request for unknown model: 'nope' is not found",
      infer_response: { id: 'b' },
    });
    expect(await stream.next()).toEqual({
      error_message: 'Exceeds maximum queue size',
      infer_response: { id: 'c' },
    });
    expect(await stream.next()).toMatchObject({ infer_response: { id: 'd' } });
    expect(await stream.next()).toEqual(answered('e', 5, true));
    stream.halfClose();
    expect(await stream.ended()).toMatchObject({ code: 0 });
  });

  it('interleaves the responses of decoupled models', async () => {
    const stream = client.stream('ModelStreamInfer');
    stream.send(withId('stream', 'a'));
    stream.send(withId('stream', 'b'));
    const a = await running.server.nextHeld();
    const b = await running.server.nextHeld();
    respond(b, 1);
    respond(a, 2);
    respond(b, 3);
    expect(await stream.next()).toEqual(answered('b', 1, false));
    expect(await stream.next()).toEqual(answered('a', 2, false));
    expect(await stream.next()).toEqual(answered('b', 3, false));
    stream.halfClose();
    b.handler.complete();
    a.handler.fail(internal('broke'));
    expect(await stream.next()).toEqual({
      error_message: 'broke',
      infer_response: { id: 'a' },
    });
    expect(await stream.ended()).toEqual({ code: 0, details: '', rest: [] });
  });

  it('tells the end of a decoupled request in a message of its own where that is asked for', async () => {
    const stream = client.stream('ModelStreamInfer');
    stream.send({ ...withId('stream', 'a'), ...wantsEnd });
    stream.halfClose();
    const { handler } = await running.server.nextHeld();
    handler.complete();
    expect(await stream.next()).toEqual({
      infer_response: {
        model_name: 'stream',
        id: 'a',
        parameters: { triton_final_response: { bool_param: true } },
      },
    });
    expect(await stream.ended()).toMatchObject({ code: 0, rest: [] });
  });

  it('ends with a status at the first failure where that is asked for', async () => {
    const stream = client.stream('ModelStreamInfer', { triton_grpc_error: 'true' });
    stream.send(withId('held', 'a'));
    const a = await running.server.nextHeld();
    stream.send(withId('nope', 'b'));
    expect(await stream.ended()).toEqual({
      code: 5,
      details: "Request for unknown model: 'nope' is not found",
      rest: [],
    });
    await running.server.told(a, 'cancel');
    respond(a, 1);
    a.handler.complete();
  });

  it('answers a request without data with what it lacks', async () => {
    const stream = client.stream('ModelStreamInfer');
    const odd = { model_name: 'held', inputs: [{ name: 'X', datatype: 'FP32', shape: [1] }] };
    stream.send({ ...odd, id: 'a' });
    expect(await stream.next()).toEqual({
      error_message: "unable to find data for input tensor 'X' for model 'held' in request.",
      infer_response: { id: 'a' },
    });
    stream.halfClose();
    expect(await stream.ended()).toMatchObject({ code: 0 });
  });

  it('cancels everything when the client gives up', async () => {
    const stream = client.stream('ModelStreamInfer');
    stream.send(withId('held', 'a'));
    stream.send(withId('stream', 'b'));
    const a = await running.server.nextHeld();
    const b = await running.server.nextHeld();
    stream.call.cancel();
    await running.server.told(a, 'cancel');
    await running.server.told(b, 'cancel');
    // What comes too late goes nowhere.
    respond(b, 1);
    b.handler.complete();
    respond(a, 1);
    a.handler.complete();
    expect(await stream.ended()).toMatchObject({ code: 1, rest: [] });
  });

  it('holds models back while the client does not read, and lets them go on when it does', async () => {
    const stream = client.stream('ModelStreamInfer');
    stream.call.pause();
    stream.send(withId('stream', 'a'));
    stream.send(withId('stream', 'b'));
    const a = await running.server.nextHeld();
    const b = await running.server.nextHeld();
    const large = fp32('X', Array<number>(250_000).fill(1));
    let count = 0;
    while (!a.events.includes('pause')) {
      a.handler.respond({ ...response([large]), id: 'a' });
      count += 1;
      expect(count).toBeLessThan(50);
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    expect(b.events).toEqual(['pause']);
    stream.call.resume();
    await running.server.told(a, 'resume');
    await running.server.told(b, 'resume');
    a.handler.complete();
    b.handler.complete();
    stream.halfClose();
    for (let read = 0; read < count; read++) {
      expect(await stream.next()).toMatchObject({ infer_response: { id: 'a' } });
    }
    expect(await stream.ended()).toMatchObject({ code: 0, rest: [] });
  });

  it('reads no more requests than it can keep in mind', async () => {
    const stream = client.stream('ModelStreamInfer');
    const sent = 3000;
    for (let index = 0; index < sent; index++) stream.send(withId('held', String(index)));
    stream.halfClose();
    const answer = async (): Promise<void> => {
      const held = await running.server.nextHeld();
      respond(held, 1);
      held.handler.complete();
    };
    await answer();
    await stream.next();
    // The library itself reads ahead a few messages.
    expect(running.server.held.length).toBeLessThan(1100);
    for (let index = 1; index < sent; index++) await answer();
    for (let index = 1; index < sent; index++) {
      expect(await stream.next()).toMatchObject({ infer_response: { id: String(index) } });
    }
    expect(await stream.ended()).toMatchObject({ code: 0, rest: [] });
  }, 20_000);
});
