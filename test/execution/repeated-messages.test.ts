import { describe, expect, it } from 'vitest';
import type { ServingReply, ServingTask, TensorMessage } from '../../src/execution/messages.js';
import {
  ReplyDecoder,
  ReplyEncoder,
  TaskDecoder,
  TaskEncoder,
} from '../../src/execution/repeated-messages.js';
import { packMerged } from '../../src/execution/tensor-transfer.js';
import type { Tensor } from '../../src/inference/tensor.js';

type MergedTask = Extract<ServingTask, { type: 'execute-merged' }>;
type MergedReply = Extract<ServingReply, { type: 'executed-merged' }>;

/** One request of a model with two inputs of `width` numbers a row. */
function request(rows: number, width = 3): readonly Tensor[] {
  return ['A', 'B'].map((name) => ({
    name,
    datatype: 'FP32',
    shape: [rows, width],
    encoding: 'raw',
    bytes: new Uint8Array(rows * width * 4).fill(rows),
  }));
}

function task(executionId: number, rows: number, more: Partial<MergedTask> = {}): MergedTask {
  const { buffer, tensors } = packMerged(Array.from({ length: rows }, () => request(1)));
  return {
    type: 'execute-merged',
    executionId,
    buffer,
    inputs: tensors,
    requestedOutputs: [],
    textRequests: undefined,
    ...more,
  };
}

function reply(rows: number, more: Partial<MergedReply> = {}): MergedReply {
  const { buffer, inputs } = task(0, rows);
  return {
    type: 'executed-merged',
    buffer,
    recycled: undefined,
    outputs: inputs,
    stamps: [1, 2, 3, 4],
    ...more,
  };
}

const strings: readonly TensorMessage[] = [
  { name: 'A', datatype: 'BYTES', shape: [1, 1], encoding: 'raw', byteOffset: 0, byteLength: 9 },
];
const wider = packMerged([request(1, 5)]);

describe('tasks', () => {
  const odd: readonly (readonly [string, Partial<MergedTask>])[] = [
    ['asks for other outputs', { requestedOutputs: ['SUM'] }],
    ['wants text', { textRequests: [{ rows: 1, prefersJsonText: true }] }],
    ['has strings', { inputs: strings }],
    ['has other shapes', { inputs: wider.tensors, buffer: wider.buffer }],
    ['has no inputs', { inputs: [] }],
  ];

  it('arrive as they were sent, those like the one before as a list', () => {
    const encoder = new TaskEncoder();
    const decoder = new TaskDecoder();
    const sent = [task(1, 2), task(2, 5), task(3, 1), task(4, 64)];
    const messages = sent.map((one) => encoder.encode(one));
    expect(messages.map((message) => Array.isArray(message))).toEqual([false, true, true, true]);
    expect(messages.map((message) => decoder.decode(message))).toEqual(sent);
  });

  it.each(odd)('go in full where one %s', (_, more) => {
    const encoder = new TaskEncoder();
    const decoder = new TaskDecoder();
    const sent = [task(1, 2), task(2, 1, more), task(3, 2), task(4, 3)];
    const messages = sent.map((one) => encoder.encode(one));
    expect(messages[1]).toBe(sent[1]);
    expect(messages[2]).toBe(sent[2]);
    expect(Array.isArray(messages[3])).toBe(true);
    expect(messages.map((message) => decoder.decode(message))).toEqual(sent);
  });

  it('goes in full where it brings memory for outputs, and the next one again as a list', () => {
    const encoder = new TaskEncoder();
    const decoder = new TaskDecoder();
    const sent = [task(1, 2), task(2, 1, { spare: new ArrayBuffer(8) }), task(3, 2)];
    const messages = sent.map((one) => encoder.encode(one));
    expect(messages.map((message) => Array.isArray(message))).toEqual([false, false, true]);
    expect(messages.map((message) => decoder.decode(message))).toEqual(sent);
  });

  it('keeps what is not an execution as it is, between two that are alike', () => {
    const encoder = new TaskEncoder();
    const decoder = new TaskDecoder();
    const sent: readonly ServingTask[] = [task(1, 2), { type: 'is-ready' }, task(2, 3)];
    const messages = sent.map((one) => encoder.encode(one));
    expect(Array.isArray(messages[2])).toBe(true);
    expect(messages.map((message) => decoder.decode(message))).toEqual(sent);
  });

  it('refuses a short one without one before it', () => {
    expect(() => new TaskDecoder().decode([1, 1, new ArrayBuffer(0)])).toThrow('this is a bug');
  });
});

describe('replies', () => {
  const odd: readonly (readonly [string, Partial<MergedReply>])[] = [
    ['gives a buffer back', { recycled: new ArrayBuffer(8) }],
    ['has strings', { outputs: strings }],
    ['has other shapes', { outputs: wider.tensors, buffer: wider.buffer }],
  ];

  it('arrive as they were sent, those like the one before as a list', () => {
    const encoder = new ReplyEncoder();
    const decoder = new ReplyDecoder();
    const sent = [reply(2), reply(5), reply(1, { stamps: [5, 6, 7, 8] })];
    const messages = sent.map((one) => encoder.encode(one));
    expect(messages.map((message) => Array.isArray(message))).toEqual([false, true, true]);
    expect(messages.map((message) => decoder.decode(message))).toEqual(sent);
  });

  it.each(odd)('go in full where one %s', (_, more) => {
    const encoder = new ReplyEncoder();
    const decoder = new ReplyDecoder();
    const sent = [reply(2), reply(1, more), reply(2), reply(3)];
    const messages = sent.map((one) => encoder.encode(one));
    expect(messages[1]).toBe(sent[1]);
    expect(messages.map((message) => decoder.decode(message))).toEqual(sent);
  });

  it('refuses a short one without one before it', () => {
    const message = [1, new ArrayBuffer(0), 1, 2, 3, 4] as const;
    expect(() => new ReplyDecoder().decode(message)).toThrow('this is a bug');
  });
});
