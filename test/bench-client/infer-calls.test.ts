import { describe, expect, it } from 'vitest';
import { type MessageSettings, makeMessages } from '../../src/bench-client/infer-message.js';
import { type InputSource, makeRows } from '../../src/bench-client/input-data.js';
import { readModelInputs } from '../../src/bench-client/model-inputs.js';
import { createRandom } from '../../src/bench-client/random.js';
import { parseTarget } from '../../src/bench-client/v2-server.js';
import { elementBytes } from '../../src/inference/datatype.js';
import type { TensorMetadata } from '../../src/inference/model-metadata.js';

const metadata = {
  inputs: [
    { name: 'A', datatype: 'FP32', shape: [-1, 2] },
    { name: 'B', datatype: 'INT64', shape: [-1, -1, 3] },
  ],
};
const one = { batchSize: 1, shapes: new Map<string, readonly number[]>() };
const withShape = { ...one, shapes: new Map([['B', [4, 3]]]) };

describe('readModelInputs', () => {
  it('takes the batch dimension off where the configuration batches', () => {
    const { inputs, isBatching } = readModelInputs(metadata, { max_batch_size: 8 }, withShape);
    expect(isBatching).toBe(true);
    expect(inputs.map(({ shape }) => shape)).toEqual([[2], [4, 3]]);
  });

  it('takes a first dimension that varies everywhere for the batch where nothing is configured', () => {
    expect(readModelInputs(metadata, undefined, withShape).isBatching).toBe(true);
    const fixed = { inputs: [...metadata.inputs, { name: 'C', datatype: 'BOOL', shape: [1] }] };
    const shapes = new Map([
      ['A', [1, 2]],
      ['B', [1, 4, 3]],
    ]);
    expect(readModelInputs(fixed, undefined, { batchSize: 1, shapes }).isBatching).toBe(false);
  });

  it('leaves out inputs that are optional and have no shape given', () => {
    const configuration = { max_batch_size: 8, input: [{ name: 'B', optional: true }] };
    const names = (shapes: typeof one) =>
      readModelInputs(metadata, configuration, shapes).inputs.map(({ name }) => name);
    expect(names(one)).toEqual(['A']);
    expect(names(withShape)).toEqual(['A', 'B']);
  });

  it('names the models that an ensemble is made of, each once', () => {
    const step = ['x', 'y', 'x'].map((model_name) => ({ model_name }));
    const configuration = { max_batch_size: 8, ensemble_scheduling: { step } };
    expect(readModelInputs(metadata, configuration, withShape).steps).toEqual(['x', 'y']);
  });

  it.each([
    ['a variable dimension without a shape', metadata, 8, one, '--shape B:N,3'],
    [
      'a shape for an input that is not there',
      metadata,
      8,
      { ...one, shapes: new Map([['X', [1]]]) },
      "no input 'X'; it has 'A', 'B'",
    ],
    ['a batch for a model that does not batch', metadata, 0, { ...withShape, batchSize: 2 }, '2'],
    ['a datatype that is not known', { inputs: [{ name: 'A', datatype: 'F' }] }, 0, one, 'F'],
  ])('refuses %s', (_, document, max_batch_size, settings, message) => {
    expect(() => readModelInputs(document, { max_batch_size }, settings)).toThrow(message);
  });
});

const random = () => createRandom(1);
const datatypes = Object.keys(elementBytes) as (keyof typeof elementBytes)[];

function bytesOf(source: InputSource, input: TensorMetadata): Uint8Array {
  return makeRows(source, [input], 1, random())[0]?.[0]?.bytes ?? new Uint8Array(0);
}

describe('makeRows', () => {
  it.each(datatypes.filter((datatype) => datatype !== 'BYTES'))(
    'makes %s tensors of the right size, random or zero',
    (datatype) => {
      const input = { name: 'A', datatype, shape: [64, 4] };
      const made = bytesOf({ kind: 'random', stringLength: 1 }, input);
      expect(made.byteLength).toBe(256 * elementBytes[datatype]);
      expect(new Set(made).size).toBeGreaterThan(1);
      expect(bytesOf({ kind: 'random', stringLength: 1 }, input)).toEqual(made);
      expect(new Set(bytesOf({ kind: 'zero' }, input))).toEqual(new Set([0]));
    },
  );

  it('makes strings: random letters, none, or the text that is given', () => {
    const input: TensorMetadata = { name: 'A', datatype: 'BYTES', shape: [2] };
    expect(bytesOf({ kind: 'random', stringLength: 5 }, input).byteLength).toBe(18);
    expect(Buffer.from(bytesOf({ kind: 'zero' }, input)).toString('hex')).toBe('0'.repeat(16));
    const text = Buffer.from(bytesOf({ kind: 'text', text: 'hi' }, input)).toString('latin1');
    expect(text).toBe('\x02\0\0\0hi\x02\0\0\0hi');
  });

  const file = (rows: unknown): InputSource => ({
    kind: 'file',
    content: JSON.stringify({ data: rows }),
  });
  const uint8: TensorMetadata = { name: 'A', datatype: 'UINT8', shape: [2] };

  it('reads every form of a row of a file', () => {
    const forms = [
      { A: [1, 2] },
      { A: [[1], [2]] },
      { A: { content: [1, 2], shape: [2] } },
      { A: { b64: 'AQI=' } },
      { A: { content: { b64: 'AQI=' }, shape: [2] }, ignored: 1 },
    ];
    const rows = makeRows(file(forms), [uint8], 1, random());
    expect(rows.map(([tensor]) => [...(tensor?.bytes ?? [])])).toEqual(forms.map(() => [1, 2]));
  });

  it.each([
    ['no rows', file([]), 'no list "data"'],
    ['no JSON', { kind: 'file', content: '{' } as const, '--input-data'],
    ['a row without an input', file([{ B: [1] }]), "row 0, input 'A': there is none"],
    ['another shape', file([{ A: { content: [1, 2], shape: [1, 2] } }]), '[1,2], not [2]'],
    ['another count', file([{ A: [1, 2] }, { A: [1] }]), "row 1, input 'A'"],
    ['another number of bytes', file([{ A: { b64: 'AQ==' } }]), '1 bytes, expected 2'],
    ['a sequence', file([[{ A: [1, 2] }]]), 'sequences are not supported'],
  ])('refuses a file with %s', (_, source, message) => {
    expect(() => makeRows(source, [uint8], 1, random())).toThrow(message);
  });
});

describe('makeMessages', () => {
  const rows = [1, 2, 3].map((value) => [
    { name: 'A', datatype: 'UINT8' as const, shape: [1], bytes: Uint8Array.of(value) },
  ]);
  const settings: MessageSettings = {
    path: '/v2/models/m/infer',
    headers: [['Host', 'h']],
    inputFormat: 'binary',
    outputFormat: 'binary',
    batchSize: 2,
    isBatching: true,
  };
  const split = (message: Buffer | undefined) =>
    (message?.toString('latin1') ?? '').split('\r\n\r\n');

  it('puts the next rows in each message, and the first ones again in the last', () => {
    const bodies = makeMessages(rows, settings).map((message) => split(message)[1]?.slice(-2));
    expect(bodies).toEqual(['\x01\x02', '\x03\x01']);
  });

  it('says how long the JSON part and each tensor is', () => {
    const [head, body = ''] = split(makeMessages(rows, settings)[0]);
    const jsonLength = Number(/Inference-Header-Content-Length: (\d+)/.exec(head ?? '')?.[1]);
    expect(Number(/\r\nContent-Length: (\d+)/.exec(head ?? '')?.[1])).toBe(body.length);
    expect(JSON.parse(body.slice(0, jsonLength))).toEqual({
      parameters: { binary_data_output: true },
      inputs: [
        { name: 'A', shape: [2, 1], datatype: 'UINT8', parameters: { binary_data_size: 2 } },
      ],
    });
  });

  it('writes JSON, and leaves the batch out of models without', () => {
    const [head, body = ''] = split(
      makeMessages(rows, {
        ...settings,
        inputFormat: 'json',
        outputFormat: 'json',
        batchSize: 1,
        isBatching: false,
      })[0],
    );
    expect(head).toContain('Content-Type: application/json');
    expect(JSON.parse(body)).toEqual({
      inputs: [{ name: 'A', shape: [1], datatype: 'UINT8', data: [1] }],
    });
  });
});

describe('parseTarget', () => {
  const tls = { authorities: undefined, verifiesPeer: true };
  it.each([
    ['localhost:8000', 'localhost', 8000, '', false],
    ['http://h', 'h', 80, '', false],
    ['https://h/path/', 'h', 443, '/path', true],
    ['[::1]:9000', '::1', 9000, '', false],
  ])('reads %s', (text, host, port, basePath, isTls) => {
    const target = parseTarget(text, [], tls);
    expect(target).toMatchObject({ host, port, basePath });
    expect(target.tls !== undefined).toBe(isTls);
  });

  it.each(['', 'grpc://h:1', 'h:port', 'http://'])("refuses '%s'", (text) => {
    expect(() => parseTarget(text, [], tls)).toThrow();
  });
});
