import type { ErrorMessage, InstanceReply } from './messages.js';
import type { ExecuteReply } from './model-instances.js';

/** An execution's failure as a whole; a fatal one has taken its instance with it. */
export function failedReply(
  { code, message }: ErrorMessage,
  isFatal: boolean,
): Extract<ExecuteReply, { readonly type: 'failed' }> {
  return { type: 'failed', error: { code, message }, isFatal };
}

export function isExecuteReply(reply: InstanceReply): reply is ExecuteReply {
  const { type } = reply;
  return type === 'executed-merged' || type === 'executed-requests' || type === 'failed';
}
