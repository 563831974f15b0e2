import { workerData } from 'node:worker_threads';
import { loadBackend } from '../src/backends/backend-registry.js';
import type { InstanceReply, StartTask } from '../src/execution/messages.js';
import { leaveNativeCall, type NativeCallFlag } from '../src/execution/native-calls.js';
import { InstanceHost } from './instance-host.js';
import { tensorTextCodec } from './tensor-text-codec.js';

/*
 * The file that Piscina runs in the thread of one model instance. It joins the two sides that must
 * not know each other: the messages of `execution` and the models of `backends`.
 */

/** Undefined where the thread may be ended at any time; set by the thread's owner otherwise. */
const nativeCall: NativeCallFlag | undefined =
  workerData instanceof Int32Array ? (workerData as NativeCallFlag) : undefined;

const host = new InstanceHost(loadBackend, tensorTextCodec, () => leaveNativeCall(nativeCall));

export default function instanceWorker(task: StartTask): Promise<InstanceReply> {
  return host.start(task);
}
