import type { IncomingMessage, ServerResponse } from 'node:http';
import { BodyBuffer, type BodyMemory } from './body-buffer.js';
import { answerFaults } from './faults.js';
import type { ReplyHead } from './reply-head.js';
import type { BodyLimits, BodyReceiver, Exchange, ExchangeWatcher } from './transport.js';

/** As in `uws-exchange.ts`. */
const lingerMs = 2000;
const lingerBytesMax = 64 * 1_048_576;

/** What exchanges share. */
export interface NodeExchangeContext {
  readonly memory: BodyMemory;
  inFlightRequests: number;
}

/** An exchange carried by `node:http`, which answers pipelined requests in order by itself. */
export class NodeExchange implements Exchange {
  readonly method: string;
  readonly path: string;
  isAborted = false;

  readonly #context: NodeExchangeContext;
  readonly #request: IncomingMessage;
  readonly #response: ServerResponse;
  #isReplied = false;
  #buffer: BodyBuffer | undefined = undefined;
  #receiver: BodyReceiver | undefined = undefined;
  #watcher: ExchangeWatcher | undefined = undefined;

  constructor(context: NodeExchangeContext, request: IncomingMessage, response: ServerResponse) {
    this.#context = context;
    this.#request = request;
    this.#response = response;
    this.method = request.method ?? '';
    const target = request.url ?? '';
    const query = target.indexOf('?');
    this.path = query === -1 ? target : target.slice(0, query);
    context.inFlightRequests += 1;
    response.on('close', () => this.#end());
  }

  header(name: string): string {
    const { rawHeaders } = this.#request;
    for (let index = 0; index < rawHeaders.length; index += 2) {
      if (rawHeaders[index]?.toLowerCase() === name) return rawHeaders[index + 1] ?? '';
    }
    return '';
  }

  visitHeaders(visit: (name: string, value: string) => void): void {
    const { rawHeaders } = this.#request;
    for (let index = 0; index < rawHeaders.length; index += 2) {
      visit(rawHeaders[index]?.toLowerCase() ?? '', rawHeaders[index + 1] ?? '');
    }
  }

  collectBody(limits: BodyLimits, alignAt: number, receiver: BodyReceiver): void {
    const request = this.#request;
    const declared = request.headers['content-length'];
    const declaredBytes = declared === undefined ? undefined : Number(declared);
    const { bytesMax } = limits;
    if (declaredBytes !== undefined && declaredBytes > bytesMax) {
      receiver.refuseBody({
        reason: 'too-many-bytes',
        bytesMax,
        bytes: declaredBytes,
      });
      return;
    }
    this.#receiver = receiver;
    const buffer = new BodyBuffer(this.#context.memory, limits, alignAt, declaredBytes);
    this.#buffer = buffer;
    request.on('data', (chunk: Buffer) => answerFaults(this, () => this.#takePiece(buffer, chunk)));
    request.on('end', () => answerFaults(this, () => this.#takeBody(buffer)));
  }

  recycleBody(body: Uint8Array): void {
    this.#context.memory.recycle(body);
  }

  watch(watcher: ExchangeWatcher): void {
    this.#watcher = watcher;
  }

  reply(head: ReplyHead, body: Uint8Array): void {
    this.replyParts(head, [body], body.byteLength, undefined);
  }

  replyParts(
    head: ReplyHead,
    parts: readonly Uint8Array[],
    byteLength: number,
    onSent: (() => void) | undefined,
  ): void {
    if (!this.#takeReply()) return;
    const response = this.#response;
    this.#writeHead(head, ['Content-Length', String(byteLength)]);
    response.cork();
    for (const part of parts) response.write(part);
    response.end(onSent);
    response.uncork();
  }

  replyAndClose(head: ReplyHead, body: Uint8Array): void {
    if (!this.#takeReply()) return;
    const request = this.#request;
    const response = this.#response;
    this.#writeHead(head, ['Connection', 'close', 'Content-Length', String(body.byteLength)]);
    const { socket } = request;
    const timer = setTimeout(() => socket.destroy(), lingerMs);
    socket.once('close', () => clearTimeout(timer));
    let dropped = 0;
    request.on('data', (chunk: Buffer) => {
      dropped += chunk.byteLength;
      if (dropped > lingerBytesMax) socket.destroy();
    });
    // `end` would close at once, with the rest unread, and reset what the client has not read yet.
    response.write(body);
    request.once('end', () => response.end());
  }

  startChunks(head: ReplyHead): void {
    if (!this.#takeReply()) return;
    this.#writeHead(head, []);
    this.#response.flushHeaders();
    this.#response.on('drain', () => this.#watcher?.onDrain());
  }

  writeChunk(chunk: Uint8Array): boolean {
    if (this.isAborted || chunk.byteLength === 0) return true;
    return this.#response.write(chunk);
  }

  endChunks(): void {
    if (!this.isAborted) this.#response.end();
  }

  #takePiece(buffer: BodyBuffer, chunk: Buffer): void {
    const receiver = this.#receiver;
    const refusal = receiver === undefined ? undefined : buffer.append(chunk);
    if (receiver === undefined || refusal === undefined) return;
    buffer.drop();
    this.#receiver = undefined;
    receiver.refuseBody(refusal);
  }

  #takeBody(buffer: BodyBuffer): void {
    const receiver = this.#receiver;
    this.#buffer = undefined;
    this.#receiver = undefined;
    receiver?.receiveBody(buffer.take());
  }

  #takeReply(): boolean {
    if (this.isAborted || this.#isReplied) return false;
    this.#isReplied = true;
    return true;
  }

  #writeHead(head: ReplyHead, more: readonly string[]): void {
    this.#response.writeHead(head.status, head.reason, [...head.fields.flat(), ...more]);
  }

  /** The answer was handed over whole, or the connection ended before. */
  #end(): void {
    this.#context.inFlightRequests -= 1;
    if (this.#response.writableFinished) return;
    this.isAborted = true;
    this.#buffer?.drop();
    const receiver = this.#receiver;
    this.#receiver = undefined;
    this.#watcher?.onAbort();
    receiver?.abortBody();
  }
}
