import type { InstanceReply } from '../src/execution/messages.js';
import { largeBytesMin } from '../src/execution/tensor-transfer.js';

/**
 * `reply` in the form in which Piscina hands large buffers over without a copy. Cloning is cheaper
 * for small ones, and a thread that has no large ones never loads what moving needs (0.9 MB).
 */
export async function movedReply(reply: InstanceReply): Promise<InstanceReply> {
  const large = largeBuffers(reply);
  if (large.length === 0) return reply;
  const { move, transferableSymbol, valueSymbol } = await import('piscina');
  const movable = { [transferableSymbol]: large, [valueSymbol]: reply };
  // Piscina unwraps it before it is sent: what arrives is `reply`. Its types lack the symbols that
  // it names in its documentation.
  return move(movable as unknown as Parameters<typeof move>[0]) as unknown as InstanceReply;
}

function largeBuffers(reply: InstanceReply): readonly ArrayBuffer[] {
  if (reply.type !== 'executed-merged' && reply.type !== 'executed-requests') return [];
  const buffers = [reply.buffer];
  if (reply.type === 'executed-merged' && reply.recycled !== undefined) {
    buffers.push(reply.recycled);
  }
  return buffers.filter((buffer) => buffer.byteLength >= largeBytesMin);
}
