import { strict as assert } from 'node:assert';
import type { Datatype } from '../../../src/inference/datatype.js';
import { decodeTensorJson } from '../../../src/protocol/tensor-json.js';
import { encodeTensorJson } from '../../../src/protocol/tensor-text.js';

export interface TensorJsonCost {
  readonly what: string;
  readonly bytesPerElement: number;
  readonly decodeNs: number;
  readonly encodeNs: number;
  /** `JSON.parse` alone, which leaves a list of numbers and knows neither NaN nor 64 bits. */
  readonly jsonParseNs: number;
}

/** Cost of an element of a JSON array, both ways: the fastest of several rounds. */
export function measureTensorJson(count: number): readonly TensorJsonCost[] {
  const random = seededRandom();
  const list = (value: (index: number) => number): number[] =>
    Array.from({ length: count }, (_, index) => value(index));
  return [
    measure(
      'FP32, random',
      'FP32',
      list(() => Math.fround(random())),
    ),
    measure(
      'FP32, quarters',
      'FP32',
      list((index) => index / 4),
    ),
    measure('FP64, random', 'FP64', list(random)),
    measure(
      'INT32, random',
      'INT32',
      list(() => Math.floor(random() * 2 ** 31)),
    ),
    measure(
      'UINT8, random',
      'UINT8',
      list(() => Math.floor(random() * 256)),
    ),
    measure(
      'INT64, 48 bits',
      'INT64',
      list(() => Math.floor(random() * 2 ** 48)),
    ),
  ];
}

function measure(what: string, datatype: Datatype, values: readonly number[]): TensorJsonCost {
  const text = Buffer.from(JSON.stringify(values));
  const shape = [values.length];
  const raw = decodeTensorJson(datatype, shape, text);
  assert.deepEqual(JSON.parse(Buffer.from(encodeTensorJson(datatype, raw)).toString()), values);
  const perElement = (once: () => unknown): number => fastestRound(once) / values.length;
  return {
    what,
    bytesPerElement: text.byteLength / values.length,
    decodeNs: perElement(() => decodeTensorJson(datatype, shape, text)),
    encodeNs: perElement(() => encodeTensorJson(datatype, raw)),
    jsonParseNs: perElement(() => JSON.parse(text.toString('latin1'))),
  };
}

function fastestRound(once: () => unknown): number {
  let fastest = Number.POSITIVE_INFINITY;
  for (let round = 0; round < 30; round++) {
    const start = process.hrtime.bigint();
    once();
    fastest = Math.min(fastest, Number(process.hrtime.bigint() - start));
  }
  return fastest;
}

/** Same numbers on every run (a linear congruential generator; nothing depends on its quality). */
function seededRandom(): () => number {
  let state = 42;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
}

if (import.meta.url === `file://${process.argv[1]}`) {
  for (const cost of measureTensorJson(20_000)) {
    console.log(
      `${cost.what} (${cost.bytesPerElement.toFixed(1)} bytes): decoded in ${cost.decodeNs.toFixed(0)} ns, ` +
        `encoded in ${cost.encodeNs.toFixed(0)} ns an element; JSON.parse ${cost.jsonParseNs.toFixed(0)} ns`,
    );
  }
}
