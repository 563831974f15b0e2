import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTransport } from '../../src/http/open-transport.js';
import { jsonHeads, textHeads } from '../../src/http/reply-head.js';
import type {
  BodyRefusal,
  Exchange,
  Transport,
  TransportOptions,
} from '../../src/http/transport.js';
import type { Logger } from '../../src/observability/logger.js';
import { RawClient } from './raw-client.js';

const silent: Logger = {
  error: () => undefined,
  warning: () => undefined,
  info: () => undefined,
  verbose: () => undefined,
  isVerbose: () => false,
};

const options: TransportOptions = {
  address: '127.0.0.1',
  port: 0,
  isPortReused: false,
  tls: undefined,
  uploadBytesMax: 4_000_000,
};

const limits = { bytesMax: 1_000_000, chunksMax: 65_536 };

/** What the handler below was told, for the tests to wait for. */
class Events {
  readonly #seen: string[] = [];
  #wake: () => void = () => undefined;

  add(event: string): void {
    this.#seen.push(event);
    this.#wake();
  }

  async next(): Promise<string> {
    for (;;) {
      const event = this.#seen.shift();
      if (event !== undefined) return event;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

const text = (value: string): Uint8Array => Buffer.from(value);

describe.each(['uws', 'node'] as const)('the %s transport', (kind) => {
  let transport: Transport;
  let events: Events;
  /** Answers that wait for the test. */
  const held: (() => void)[] = [];

  function collect(exchange: Exchange, alignAt: number, use: (body: Uint8Array) => void): void {
    exchange.collectBody(limits, alignAt, {
      receiveBody: use,
      refuseBody: (refusal: BodyRefusal) => {
        events.add(refusal.reason);
        exchange.replyAndClose(jsonHeads(400), text(JSON.stringify(refusal)));
      },
      abortBody: () => events.add('body aborted'),
    });
  }

  function handle(exchange: Exchange): void {
    switch (exchange.path) {
      case '/echo':
        collect(exchange, 0, (body) => exchange.reply(textHeads(200), body));
        return;
      case '/aligned':
        collect(exchange, 13, (body) => {
          exchange.reply(textHeads(200), text(String((body.byteOffset + 13) % 8)));
        });
        return;
      case '/later':
        collect(exchange, 0, (body) => {
          exchange.watch({ onAbort: () => events.add('aborted'), onDrain: () => undefined });
          held.push(() => exchange.reply(textHeads(200), body));
          events.add('held');
        });
        return;
      case '/large': {
        const part = Buffer.alloc(3_000_000, 'x');
        exchange.replyParts(textHeads(200), [part, text('|'), part], 6_000_001, undefined);
        return;
      }
      case '/stream':
        stream(exchange);
        return;
      case '/throws':
        throw new Error('a fault of the handler with a secret in its text');
      case '/headers': {
        const seen: string[] = [];
        exchange.visitHeaders((name, value) => seen.push(`${name}=${value}`));
        exchange.reply(textHeads(200), text(`${exchange.header('x-one')}|${seen.join('&')}`));
        return;
      }
      default:
        exchange.reply(jsonHeads(404), text(`${exchange.method} ${exchange.path}`));
    }
  }

  /** Chunks of 64 KiB until the client has had 64 of them or is gone. */
  function stream(exchange: Exchange): void {
    let left = 64;
    let isWaiting = false;
    const more = (): void => {
      while (left > 0) {
        left -= 1;
        if (!exchange.writeChunk(Buffer.alloc(65_536, 's'))) {
          if (!isWaiting) events.add('full');
          isWaiting = true;
          return;
        }
      }
      exchange.endChunks();
    };
    exchange.watch({
      onAbort: () => {
        left = 0;
        events.add('aborted');
      },
      onDrain: more,
    });
    exchange.startChunks(textHeads(200));
    more();
  }

  beforeAll(async () => {
    transport = await openTransport(kind, options, handle, silent);
    events = new Events();
  });
  afterAll(() => transport.destroy());

  const open = (): Promise<RawClient> => RawClient.open(transport.port);

  it('names itself and takes a free port', () => {
    expect(transport.kind).toBe(kind);
    expect(transport.port).toBeGreaterThan(0);
  });

  it('gives handlers the method as sent and the target without its query', async () => {
    const client = await open();
    await client.write('DELETE /a%2Fb/c?x=1?y HTTP/1.1\r\nHost: a\r\n\r\n');
    const reply = await client.reply();
    expect(reply?.status).toBe(404);
    expect(reply?.body.toString()).toBe('DELETE /a%2Fb/c');
    expect(reply?.headers.get('content-type')).toBe('application/json');
    expect(reply?.headers.get('keep-alive')).toBe('timeout=10');
    client.close();
  });

  it('gives handlers every header line, names in lower case', async () => {
    const client = await open();
    await client.write('GET /headers HTTP/1.1\r\nX-One: 1\r\nhost: a\r\nx-ONE: 2\r\n\r\n');
    const reply = await client.reply();
    expect(reply?.body.toString()).toBe('1|x-one=1&host=a&x-one=2');
    client.close();
  });

  it('answers HEAD with the length and no body, and keeps the connection in step', async () => {
    const client = await open();
    await client.write('HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n');
    const head = await client.reply('HEAD');
    expect(head?.headers.get('content-length')).toBe('7');
    await client.write('GET /y HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.reply())?.body.toString()).toBe('GET /y');
    client.close();
  });

  it('answers pipelined requests in order', async () => {
    const client = await open();
    const post = 'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n';
    await client.write(`${post}one${post}twoGET /x HTTP/1.1\r\nHost: a\r\n\r\n`);
    expect((await client.reply())?.body.toString()).toBe('one');
    expect((await client.reply())?.body.toString()).toBe('two');
    expect((await client.reply())?.body.toString()).toBe('GET /x');
    client.close();
  });

  it.each([
    ['in one piece', (body: Buffer) => [body]],
    ['in single bytes', (body: Buffer) => [...body].map((byte) => Buffer.from([byte]))],
    ['in two halves', (body: Buffer) => [body.subarray(0, 50), body.subarray(50)]],
  ])('collects a body that comes %s', async (_how, split) => {
    const client = await open();
    const body = Buffer.from(Array.from({ length: 100 }, (_item, index) => index));
    await client.write('POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n');
    for (const piece of split(body)) await client.write(piece);
    expect((await client.reply())?.body).toEqual(body);
    client.close();
  });

  it('collects a chunked body and one without a length', async () => {
    const client = await open();
    const head = 'POST /echo HTTP/1.1\r\nHost: a\r\n';
    await client.write(`${head}Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n`);
    expect((await client.reply())?.body.toString()).toBe('abcde');
    await client.write(`${head}\r\n`);
    expect((await client.reply())?.body.toString()).toBe('');
    client.close();
  });

  it.each([20, 5000, 500_000])('lays byte 13 of a body of %i bytes on 8 bytes', async (length) => {
    const client = await open();
    const head = `POST /aligned HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\n`;
    await client.write(Buffer.concat([Buffer.from(head), Buffer.alloc(length)]));
    expect((await client.reply())?.body.toString()).toBe('0');
    client.close();
  });

  it('honours Expect: 100-continue', async () => {
    const client = await open();
    const head =
      'POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n';
    await client.write(head);
    expect((await client.reply('HEAD'))?.status).toBe(100);
    await client.write('ok');
    expect((await client.reply())?.body.toString()).toBe('ok');
    client.close();
  });

  it('takes a body of exactly the limit', async () => {
    const client = await open();
    const head = 'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n';
    await client.write(Buffer.concat([Buffer.from(head), Buffer.alloc(1_000_000, 'b')]));
    expect((await client.reply())?.body.byteLength).toBe(1_000_000);
    client.close();
  });

  it.each([1_000_001, 99_999_999_999])('refuses a declared length of %i unread', async (length) => {
    const client = await open();
    await client.write(`POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: ${length}\r\n\r\nabc`);
    const reply = await client.reply();
    expect(await events.next()).toBe('too-many-bytes');
    expect(reply?.status).toBe(400);
    expect(JSON.parse(reply?.body.toString() ?? '')).toEqual({
      reason: 'too-many-bytes',
      bytesMax: 1_000_000,
      bytes: length,
    });
    expect(reply?.headers.get('connection')).toBe('close');
    client.close();
  });

  it('lets a client that sends all of a refused body read the answer, then closes', async () => {
    const client = await open();
    const head = 'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n';
    await client.write(Buffer.concat([Buffer.from(head), Buffer.alloc(3_000_000)]));
    expect(await events.next()).toBe('too-many-bytes');
    expect((await client.reply())?.status).toBe(400);
    await client.closed();
  });

  it('refuses a chunked body once it passes the limit', async () => {
    const client = await open();
    const chunk = Buffer.concat([text('7a120\r\n'), Buffer.alloc(500_000), text('\r\n')]);
    await client.write('POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n');
    for (let count = 0; count < 3; count += 1) await client.write(chunk);
    expect(await events.next()).toBe('too-many-bytes');
    expect((await client.reply())?.status).toBe(400);
    client.close();
  });

  it.each([
    [65_536, 200],
    [65_537, 400],
  ])('answers a body of %i one-byte chunks with %i', async (chunks, status) => {
    const client = await open();
    await client.write(
      `POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n${'1\r\na\r\n'.repeat(chunks)}0\r\n\r\n`,
    );
    expect((await client.reply())?.status).toBe(status);
    if (status === 400) expect(await events.next()).toBe('too-many-chunks');
    client.close();
  });

  it('refuses a body that all uploads together have no memory for, and forgets aborted ones', async () => {
    const head = 'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n';
    const uploads: RawClient[] = [];
    for (let count = 0; count < 4; count += 1) {
      const client = await open();
      uploads.push(client);
      await client.write(`${head}a`);
    }
    const fifth = await open();
    await fifth.write(`${head}a`);
    expect(await events.next()).toBe('no-memory-for-uploads');
    for (const client of [...uploads, fifth]) client.close();
    for (const _upload of uploads) expect(await events.next()).toBe('body aborted');
    const sixth = await open();
    await sixth.write(Buffer.concat([Buffer.from(head), Buffer.alloc(900_000)]));
    expect((await sixth.reply())?.status).toBe(200);
    sixth.close();
  });

  it('tells the handler when the client goes away while its answer is prepared', async () => {
    const client = await open();
    await client.write('POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi');
    expect(await events.next()).toBe('held');
    client.close();
    expect(await events.next()).toBe('aborted');
    expect(() => held.pop()?.()).not.toThrow();
    expect(transport.inFlightRequests).toBe(0);
  });

  it('answers later than the handler returns', async () => {
    const client = await open();
    await client.write('POST /later HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi');
    expect(await events.next()).toBe('held');
    expect(transport.inFlightRequests).toBe(1);
    held.pop()?.();
    expect((await client.reply())?.body.toString()).toBe('hi');
    expect(transport.inFlightRequests).toBe(0);
    client.close();
  });

  it('sends a large answer in pieces as the client takes it', async () => {
    const client = await open();
    client.pause();
    await client.write('GET /large HTTP/1.1\r\nHost: a\r\n\r\n');
    client.resume();
    const body = (await client.reply())?.body;
    expect(body?.byteLength).toBe(6_000_001);
    expect(body?.[3_000_000]).toBe('|'.charCodeAt(0));
    client.close();
  });

  it('holds a stream back while its reader is slow, and sends all of it in the end', async () => {
    const client = await open();
    client.pause();
    await client.write('GET /stream HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(await events.next()).toBe('full');
    client.resume();
    const reply = await client.reply();
    expect(reply?.headers.get('transfer-encoding')).toBe('chunked');
    expect(reply?.body.byteLength).toBe(64 * 65_536);
    client.close();
  });

  it('tells a stream that its reader is gone', async () => {
    const client = await open();
    client.pause();
    await client.write('GET /stream HTTP/1.1\r\nHost: a\r\n\r\n');
    expect(await events.next()).toBe('full');
    client.close();
    expect(await events.next()).toBe('aborted');
  });

  it('answers 500 without the text of a fault, and goes on', async () => {
    const client = await open();
    await client.write('GET /throws HTTP/1.1\r\nHost: a\r\n\r\n');
    const reply = await client.reply();
    expect(reply?.status).toBe(500);
    expect(reply?.body.toString()).toBe('{"error":"internal error"}');
    await client.write('GET /x HTTP/1.1\r\nHost: a\r\n\r\n');
    expect((await client.reply())?.status).toBe(404);
    client.close();
  });

  it.each([
    ['garbage', 'GARBAGE\r\n\r\n'],
    ['a negative length', 'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n'],
    ['a length of letters', 'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: abc\r\n\r\n'],
    ['a bad chunk', 'POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'],
    ['bare line feeds', 'GET /x HTTP/1.1\nHost: a\n\n'],
    ['another protocol', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ])('closes a connection that sends %s, and lives on', async (_what, bytes) => {
    const client = await open();
    await client.write(bytes);
    const left = await client.closed();
    expect(left === '' || /^HTTP\/1\.1 (4|505)/.test(left)).toBe(true);
    if (bytes.startsWith('POST')) {
      const other = await open();
      await other.write('GET /x HTTP/1.1\r\nHost: a\r\n\r\n');
      expect((await other.reply())?.status).toBe(404);
      other.close();
    }
  });

  it.each([
    ['a target of 8000 bytes', `/x?${'a'.repeat(7997)}`, '', 404],
    ['a target of 9000 bytes', `/x?${'a'.repeat(8997)}`, '', 414],
    ['a path of 60,000 bytes', `/${'a'.repeat(60_000)}`, '', 414],
    ['headers of 8000 bytes', '/x', 'a'.repeat(8000), 404],
    ['headers of 16,000 bytes', '/x', 'a'.repeat(16_000), 431],
    ['headers of 60,000 bytes', '/x', 'a'.repeat(60_000), 431],
  ])('answers %s', async (_what, target, header, status) => {
    const client = await open();
    await client.write(`GET ${target} HTTP/1.1\r\nHost: a\r\nX-A: ${header}\r\n\r\n`);
    const answered = (await client.reply())?.status;
    // Where the carrier itself reads no further, it may say so for both.
    expect(status === 414 ? [414, 431] : [status]).toContain(answered);
    client.close();
  });
});
