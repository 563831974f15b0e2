import { internal } from '../errors.js';
import type { InstanceCommand, InstanceNotice, ServingReply, ServingTask } from './messages.js';
import { TensorLayout } from './tensor-layout.js';

/*
 * Batches of one model look alike but for their rows and their bytes. Cloning names, datatypes and
 * shapes for each of them takes longer than everything else about a small message, so that a task
 * or an answer like the one before goes as a short list:
 *
 *   [executionId, rows, buffer]               instead of an `execute-merged`
 *   [rows, buffer, ...the four stamps]        instead of an `executed-merged`
 *
 * Both ends of a port remember the last one that went in full; a port keeps the order.
 */

type RepeatedTask = readonly [executionId: number, rows: number, buffer: ArrayBuffer];
type RepeatedReply = readonly [number, ArrayBuffer, number, number, number, number];

/** Main thread → thread, as it lies on the port. */
export type PortTask = ServingTask | InstanceCommand | RepeatedTask;
/** Thread → main thread. */
export type PortReply = ServingReply | InstanceNotice | RepeatedReply;

interface TaskForm {
  readonly layout: TensorLayout;
  readonly requestedOutputs: readonly string[];
}

/** For the main thread's end. */
export class TaskEncoder {
  #form: TaskForm | undefined;

  encode(task: ServingTask): ServingTask | RepeatedTask {
    if (task.type !== 'execute-merged') return task;
    const { executionId, inputs, buffer, requestedOutputs, textRequests, spare } = task;
    const rows = inputs[0]?.shape[0] ?? 0;
    const form = this.#form;
    if (
      form !== undefined &&
      spare === undefined &&
      textRequests === undefined &&
      form.layout.fits(inputs, rows) &&
      isSameList(requestedOutputs, form.requestedOutputs)
    ) {
      return [executionId, rows, buffer];
    }
    this.#form = taskForm(task);
    return task;
  }
}

/** For the thread's end. */
export class TaskDecoder {
  #form: TaskForm | undefined;

  decode(message: PortTask): ServingTask | InstanceCommand {
    if (!isList(message)) {
      if (message.type === 'execute-merged') this.#form = taskForm(message);
      return message;
    }
    const [executionId, rows, buffer] = message;
    if (this.#form === undefined) throw outOfTurn();
    const { layout, requestedOutputs } = this.#form;
    return {
      type: 'execute-merged',
      executionId,
      buffer,
      inputs: layout.tensors(rows),
      requestedOutputs,
      textRequests: undefined,
    };
  }
}

/** For the thread's end. */
export class ReplyEncoder {
  #layout: TensorLayout | undefined;

  encode(reply: ServingReply): ServingReply | RepeatedReply {
    if (reply.type !== 'executed-merged') return reply;
    const { outputs, buffer, recycled, stamps } = reply;
    const rows = outputs[0]?.shape[0] ?? 0;
    if (recycled === undefined && this.#layout?.fits(outputs, rows)) {
      return [rows, buffer, ...stamps];
    }
    this.#layout = TensorLayout.of(outputs);
    return reply;
  }
}

/** For the main thread's end. */
export class ReplyDecoder {
  #layout: TensorLayout | undefined;

  decode(message: PortReply): ServingReply | InstanceNotice {
    if (!isList(message)) {
      if (message.type === 'executed-merged') this.#layout = TensorLayout.of(message.outputs);
      return message;
    }
    const [rows, buffer, ...stamps] = message;
    if (this.#layout === undefined) throw outOfTurn();
    const outputs = this.#layout.tensors(rows);
    return { type: 'executed-merged', buffer, recycled: undefined, outputs, stamps };
  }
}

function taskForm(task: Extract<ServingTask, { type: 'execute-merged' }>): TaskForm | undefined {
  if (task.textRequests !== undefined) return undefined;
  const layout = TensorLayout.of(task.inputs);
  return layout && { layout, requestedOutputs: task.requestedOutputs };
}

function isList<List extends readonly unknown[]>(message: object | List): message is List {
  return Array.isArray(message);
}

function isSameList(left: readonly string[], right: readonly string[]): boolean {
  if (left.length !== right.length) return false;
  for (let index = 0; index < left.length; index += 1) {
    if (left[index] !== right[index]) return false;
  }
  return true;
}

function outOfTurn(): Error {
  return internal('a message like one that never came; this is a bug');
}
