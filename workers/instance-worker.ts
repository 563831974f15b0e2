import { loadBackend } from '../src/backends/backend-registry.js';
import type { InstanceReply, InstanceTask } from '../src/execution/messages.js';
import { InstanceHost } from './instance-host.js';
import { movedReply } from './moved-reply.js';
import { tensorTextCodec } from './tensor-text-codec.js';

/*
 * The file that Piscina runs in the thread of one model instance. It joins the two sides that must
 * not know each other: the messages of `execution` and the models of `backends`.
 */

const host = new InstanceHost(loadBackend, tensorTextCodec);

export default async function instanceWorker(task: InstanceTask): Promise<InstanceReply> {
  return movedReply(await host.answer(task));
}
