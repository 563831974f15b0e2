import { STATUS_CODES } from 'node:http';

/**
 * Status line and headers of an answer, made once and used for many: uWebSockets.js takes the text
 * as one piece, which saves a call into native code for each header.
 */
export interface ReplyHead {
  readonly status: number;
  readonly reason: string;
  readonly fields: readonly (readonly [name: string, value: string])[];
  /** `200 OK` and the header lines behind it, without the last line break. */
  readonly block: string;
  /** `block` as bytes: a string is measured, copied and freed once more each time it is written. */
  readonly blockBytes: ArrayBuffer;
}

/**
 * uWebSockets.js closes a connection that is idle for 10 s (compiled in; up to 12 s by its timer's
 * grain) and says so, so that clients and proxies do not reuse a connection about to end.
 */
export const keepAliveSeconds = 10;

export function makeReplyHead(
  status: number,
  contentType: string,
  fields: readonly (readonly [string, string])[] = [],
): ReplyHead {
  // The reference server's own words for 405.
  const reason = status === 405 ? 'Not Allowed' : (STATUS_CODES[status] ?? 'Unknown');
  const all = [['Content-Type', contentType] as const, ...fields];
  const lines = all.map(([name, value]) => `${name}: ${value}`);
  const block = [`${status} ${reason}`, ...lines, `Keep-Alive: timeout=${keepAliveSeconds}`];
  return { status, reason, fields: all, ...blockOf(block.join('\r\n')) };
}

/** `head` and one more header. */
export function withField(head: ReplyHead, name: string, value: string): ReplyHead {
  return {
    ...head,
    fields: [...head.fields, [name, value]],
    ...blockOf(`${head.block}\r\n${name}: ${value}`),
  };
}

function blockOf(block: string): Pick<ReplyHead, 'block' | 'blockBytes'> {
  const { buffer, byteLength } = new TextEncoder().encode(block);
  return { block, blockBytes: buffer.slice(0, byteLength) };
}

/** The heads of one content type by status. */
export type ReplyHeads = (status: number) => ReplyHead;

function headsOf(contentType: string): ReplyHeads {
  const statuses = [200, 400, 403, 404, 405, 414, 431, 500, 501, 503];
  const heads = new Map(statuses.map((status) => [status, makeReplyHead(status, contentType)]));
  return (status) => heads.get(status) ?? makeReplyHead(status, contentType);
}

export const jsonHeads: ReplyHeads = headsOf('application/json');
export const textHeads: ReplyHeads = headsOf('text/plain');
export const eventStreamHeads: ReplyHeads = headsOf('text/event-stream; charset=utf-8');

/** Distinct JSON lengths whose head is kept; each takes about 0.3 kB. */
const binaryHeadsMax = 1024;

/** Heads of answers whose first bytes are JSON and whose rest is tensors, by the JSON's length. */
export class BinaryHeads {
  readonly #heads = new Map<number, ReplyHead>();

  get(jsonByteLength: number): ReplyHead {
    let head = this.#heads.get(jsonByteLength);
    if (head === undefined) {
      head = makeReplyHead(200, 'application/octet-stream', [
        ['Inference-Header-Content-Length', String(jsonByteLength)],
      ]);
      if (this.#heads.size < binaryHeadsMax) this.#heads.set(jsonByteLength, head);
    }
    return head;
  }
}
