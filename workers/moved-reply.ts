import type { InstanceReply } from '../src/execution/messages.js';

/**
 * Bytes from which a reply's buffer is moved and not cloned. Cloning is cheaper for small ones, and
 * a thread that has no large ones never loads what moving needs (0.9 MB a thread).
 */
const movedBytesMin = 65_536;

/** `reply` in the form in which Piscina hands a large buffer over without a copy. */
export async function movedReply(reply: InstanceReply): Promise<InstanceReply> {
  if (reply.type !== 'executed-merged' && reply.type !== 'executed-requests') return reply;
  if (reply.buffer.byteLength < movedBytesMin) return reply;
  const { move, transferableSymbol, valueSymbol } = await import('piscina');
  const movable = { [transferableSymbol]: [reply.buffer], [valueSymbol]: reply };
  // Piscina unwraps it before it is sent: what arrives is `reply`. Its types lack the symbols that
  // it names in its documentation.
  return move(movable as unknown as Parameters<typeof move>[0]) as unknown as InstanceReply;
}
