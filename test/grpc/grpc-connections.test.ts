import { readFileSync } from 'node:fs';
import { connect as connectHttp2 } from 'node:http2';
import { connect, createServer, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { credentials } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { fp32, response } from '../http/fake-inference-server.js';
import { GrpcClient } from './grpc-client.js';
import { inferRequest, RunningGrpcServer } from './running-grpc-server.js';

const file = (name: string): string =>
  fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const tls = { keyFile: file('server-key.pem'), certFile: file('server.pem'), clientRootFile: '' };
// Node warns of a server name that is an address.
const named = { 'grpc.ssl_target_name_override': 'localhost' };
const read = (name: string): Buffer => readFileSync(file(name));

describe('TLS', () => {
  it('is served with the certificate given', async () => {
    const front = await RunningGrpcServer.start({ tls });
    const client = front.connect(named, credentials.createSsl(read('ca.pem')));
    expect(await client.call('ServerLive')).toMatchObject({ code: 0, response: { live: true } });
    expect(await front.connect().call('ServerLive')).toMatchObject({ code: 14 });
    front.stop();
  });

  it('admits only clients with a certificate where they are asked for one', async () => {
    const front = await RunningGrpcServer.start({
      tls: { ...tls, clientRootFile: file('ca.pem') },
    });
    const known = credentials.createSsl(read('ca.pem'), read('client-key.pem'), read('client.pem'));
    expect(await front.connect(named, known).call('ServerLive')).toMatchObject({ code: 0 });
    const unknown = credentials.createSsl(read('ca.pem'));
    expect(await front.connect(named, unknown).call('ServerLive')).toMatchObject({ code: 14 });
    front.stop();
  });

  it('needs a key and certificates that can be used', async () => {
    await expect(
      RunningGrpcServer.start({ tls: { ...tls, certFile: file('server-key.pem') } }),
    ).rejects.toMatchObject({ code: 'INVALID_ARG' });
  });
});

describe('the port', () => {
  it('is refused where somebody else has it', async () => {
    const other = createServer();
    await new Promise<void>((resolve) => {
      other.listen(0, '127.0.0.1', resolve);
    });
    const address = other.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    await expect(RunningGrpcServer.start({ port })).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining(`cannot listen on 127.0.0.1 port ${port}`),
    });
    other.close();
  });
});

describe('compression', () => {
  it.each(['low', 'medium', 'high'] as const)(
    'at level %s makes large responses smaller, also on a stream',
    async (compressionLevel) => {
      const front = await RunningGrpcServer.start({ compressionLevel });
      const client = front.connect();
      const values = Array<number>(100_000).fill(1);
      const unary = await client.call('ModelInfer', inferRequest('echo', values));
      expect(unary).toMatchObject({ code: 0, response: { outputs: [{ shape: ['100000'] }] } });
      const stream = client.stream('ModelStreamInfer');
      // One that takes a while to compress, then one that is too small for it.
      stream.send(inferRequest('echo', values, { id: 'large' }));
      stream.send(inferRequest('echo', [1], { id: 'small' }));
      stream.halfClose();
      expect(await stream.next()).toMatchObject({ infer_response: { id: 'large' } });
      expect(await stream.next()).toMatchObject({ infer_response: { id: 'small' } });
      expect(await stream.ended()).toMatchObject({ code: 0 });
      front.stop();
    },
  );

  it('is seen on the wire', async () => {
    const sizes = await Promise.all(
      (['none', 'low'] as const).map(async (compressionLevel) => {
        const front = await RunningGrpcServer.start({ compressionLevel });
        const relay = await startRelay(front.port);
        const through = new GrpcClient(`127.0.0.1:${relay.port}`);
        await through.call('ModelInfer', inferRequest('echo', Array<number>(100_000).fill(1)));
        through.close();
        relay.close();
        front.stop();
        return relay.bytesToClient();
      }),
    );
    expect(sizes[0]).toBeGreaterThan(400_000);
    expect(sizes[1]).toBeLessThan(20_000);
  });

  it('of requests is understood', async () => {
    const front = await RunningGrpcServer.start();
    const client = front.connect({ 'grpc.default_compression_algorithm': 2 });
    const answer = await client.call(
      'ModelInfer',
      inferRequest('echo', Array<number>(1000).fill(1)),
    );
    expect(answer).toMatchObject({ code: 0, response: { outputs: [{ shape: ['1000'] }] } });
    front.stop();
  });
});

describe('draining', () => {
  const shuttingDown = 'GRPC server is shutting down and has stopped accepting new requests.';

  it('lets what was begun finish, ends idle streams and takes nothing new', async () => {
    const front = await RunningGrpcServer.start();
    const client = front.connect();
    const unary = client.call('ModelInfer', inferRequest('held'));
    const unaryHeld = await front.server.nextHeld();
    const idle = client.stream('ModelStreamInfer');
    idle.send(inferRequest('echo'));
    await idle.next();
    const busy = client.stream('ModelStreamInfer');
    busy.send(inferRequest('stream', [1], { id: 's' }));
    const busyHeld = await front.server.nextHeld();
    const watch = client.stream('Watch', {}, 'grpc.health.v1.Health');
    watch.send({ service: '' });
    expect(await watch.next()).toEqual({ status: 'SERVING' });

    let isDrained = false;
    const drained = front.grpc.drain().then(() => {
      isDrained = true;
    });
    expect(await idle.ended()).toMatchObject({ code: 14, details: shuttingDown });
    expect(await watch.next()).toEqual({ status: 'NOT_SERVING' });
    expect(await watch.ended()).toMatchObject({ code: 0 });
    expect(await front.connect().call('ServerLive')).toMatchObject({ code: 14 });
    expect(isDrained).toBe(false);

    busyHeld.handler.respond(response([fp32('X', [1])]));
    expect(await busy.next()).toMatchObject({ infer_response: {} });
    busyHeld.handler.complete();
    expect(await busy.ended()).toMatchObject({ code: 14, details: shuttingDown });
    unaryHeld.handler.respond(response([fp32('X', [1])]));
    unaryHeld.handler.complete();
    expect(await unary).toMatchObject({ code: 0 });
    await drained;
    front.stop();
  });

  it('ends at once where nothing is under way, though connections are open', async () => {
    const front = await RunningGrpcServer.start();
    await front.connect().call('ServerLive');
    await front.grpc.drain();
    front.stop();
  });

  it('is cut short by destroy', async () => {
    const front = await RunningGrpcServer.start();
    const unary = front.connect().call('ModelInfer', inferRequest('held'));
    const held = await front.server.nextHeld();
    const drained = front.grpc.drain();
    front.grpc.destroy();
    await drained;
    expect(await unary).toMatchObject({ code: expect.any(Number), response: undefined });
    await front.server.told(held, 'cancel');
    front.stop();
  });
});

describe('connections', () => {
  it('of clients that no longer answer pings are closed, and their requests cancelled', async () => {
    const front = await RunningGrpcServer.start({ keepaliveTimeMs: 50, keepaliveTimeoutMs: 50 });
    const relay = await startRelay(front.port);
    const client = new GrpcClient(`127.0.0.1:${relay.port}`);
    const stream = client.stream('ModelStreamInfer');
    stream.send(inferRequest('stream'));
    const held = await front.server.nextHeld();
    relay.freeze();
    await front.server.told(held, 'cancel');
    relay.close();
    client.close();
    front.stop();
  });

  it('of clients that answer pings stay', async () => {
    const front = await RunningGrpcServer.start({ keepaliveTimeMs: 20, keepaliveTimeoutMs: 500 });
    const session = connectHttp2(`http://127.0.0.1:${front.port}`);
    await new Promise<void>((resolve) => {
      let pings = 0;
      session.on('ping', () => {
        pings += 1;
        if (pings === 3) resolve();
      });
    });
    expect(session.closed).toBe(false);
    session.destroy();
    front.stop();
  });

  it('end when they are as old as they may become', async () => {
    const front = await RunningGrpcServer.start({
      connectionAgeMaxMs: 50,
      connectionAgeGraceMs: 1000,
    });
    const session = connectHttp2(`http://127.0.0.1:${front.port}`);
    session.on('error', () => undefined);
    await new Promise<void>((resolve) => {
      session.once('close', resolve);
    });
    front.stop();
  });
});

/** A relay in front of a port that counts what it passes on, and can stop to pass anything on. */
async function startRelay(port: number) {
  let bytes = 0;
  const sockets: Socket[] = [];
  const relay = createServer((near) => {
    const far = connect(port, '127.0.0.1');
    near.pipe(far);
    far.on('data', (chunk) => {
      bytes += chunk.byteLength;
    });
    far.pipe(near);
    for (const socket of [near, far]) {
      sockets.push(socket);
      socket.on('error', () => undefined);
    }
  });
  await new Promise<void>((resolve) => {
    relay.listen(0, '127.0.0.1', resolve);
  });
  const address = relay.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    bytesToClient: () => bytes,
    freeze: () => {
      for (const socket of sockets) socket.unpipe().removeAllListeners('data').pause();
    },
    close: () => {
      relay.close();
      for (const socket of sockets) socket.destroy();
    },
  };
}
