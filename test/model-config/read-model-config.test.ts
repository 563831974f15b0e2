import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { modelConfigToMessage, toConfigDocument } from '../../src/model-config/config-document.js';
import {
  parseModelConfigJson,
  parseModelConfigText,
} from '../../src/model-config/read-model-config.js';

function parse(text: string) {
  return parseModelConfigText(text, 'config.pbtxt');
}

function failure(action: () => unknown): InferenceServerError {
  try {
    action();
  } catch (error) {
    if (error instanceof InferenceServerError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('parseModelConfigText', () => {
  it('gives an empty file all scalar defaults and no messages', () => {
    expect(parse('')).toEqual({
      name: '',
      platform: '',
      backend: '',
      runtime: '',
      max_batch_size: 0,
      input: [],
      output: [],
      batch_input: [],
      batch_output: [],
      instance_group: [],
      default_model_filename: '',
      cc_model_filenames: {},
      metric_tags: {},
      parameters: {},
      model_warmup: [],
    });
  });

  it.each([
    ['a colon before a message', 'dynamic_batching: { }', 'dynamic_batching { }'],
    ['angle brackets', 'input < name: "A" >', 'input { name: "A" }'],
    [
      'a list of messages',
      'input [ { name: "A" }, { name: "B" } ]',
      'input { name: "A" } input { name: "B" }',
    ],
    ['a list of messages after a colon', 'input: [ { name: "A" } ]', 'input { name: "A" }'],
    [
      'repeated fields beside lists',
      'input { dims: 1 dims: [ 2, 3 ] }',
      'input { dims: [ 1, 2, 3 ] }',
    ],
    ['an empty list', 'input { dims: [] }', 'input { }'],
    [
      'semicolons and commas after fields',
      'name: "a"; max_batch_size: 2,',
      'name: "a" max_batch_size: 2',
    ],
    ['a comma behind the last field of a message', 'input { name: "A", }', 'input { name: "A" }'],
    ['comments', '# one\nname: "a" # two\n#', 'name: "a"'],
    ['a hash in a string', 'name: "a#b"', "name: 'a#b'"],
    ['escapes', String.raw`name: "\x61\142\u0063\n\t\\\"\'"`, String.raw`name: 'abc\n\t\\"\''`],
    ['strings side by side', `name: "ab" 'cd'\n"ef"`, 'name: "abcdef"'],
    ['an enum by number', 'input { data_type: 11 }', 'input { data_type: TYPE_FP32 }'],
    [
      'an instance kind by number',
      'instance_group { kind: 2 }',
      'instance_group { kind: KIND_CPU }',
    ],
    [
      'words for true',
      'input { optional: t } input { optional: True }',
      'input { optional: true } input { optional: 1 }',
    ],
    ['words for false', 'input { optional: f }', 'input { optional: false }'],
    [
      'hexadecimal and octal numbers',
      'max_batch_size: 0x10 input { dims: 010 }',
      'max_batch_size: 16 input { dims: 8 }',
    ],
    [
      'a map entry for each key',
      'metric_tags { key: "a" value: "1" } metric_tags { key: "b" value: "2" }',
      'metric_tags [ { key: "a" value: "1" }, { key: "b", value: "2" } ]',
    ],
    [
      'the last of equal keys',
      'metric_tags { key: "a" value: "1" } metric_tags { key: "a" value: "2" }',
      'metric_tags { key: "a" value: "2" }',
    ],
    [
      'a colon before a map value',
      'parameters { key: "k" value: { string_value: "v" } }',
      'parameters { key: "k" value { string_value: "v" } }',
    ],
    ['CRLF', 'name: "a"\r\nmax_batch_size: 2\r\n', 'name: "a" max_batch_size: 2'],
    ['a byte order mark', '\uFEFFname: "a"', 'name: "a"'],
  ])('takes %s', (_what, text, same) => {
    expect(parse(text)).toEqual(parse(same));
    expect(parse(text)).not.toEqual(parse(''));
  });

  it.each([
    ['0.5', 0.5],
    ['.5', 0.5],
    ['1', 1],
    ['1e-3', 0.001],
    ['1f', 1],
    ['0.1', 0.1],
    ['0.30000001', 0.3],
  ])('reads the float %s as people write it', (text, value) => {
    const config = parse(`sequence_batching { direct { minimum_slot_utilization: ${text} } }`);
    expect(config.sequence_batching?.direct?.minimum_slot_utilization).toBe(value);
  });

  it('keeps an empty message that chooses', () => {
    expect(parse('version_policy: { all { }}').version_policy).toEqual({ all: {} });
    expect(parse('sequence_batching { direct { } }').sequence_batching?.direct).toBeDefined();
  });

  it('shows members of a choice only when they are set', () => {
    const warmup = parse(
      'model_warmup { inputs { key: "A" value { zero_data: true } } inputs { key: "B" value { input_data_file: "f" } } }',
    ).model_warmup[0];
    expect(Object.keys(warmup?.inputs['A'] ?? {})).toEqual(['data_type', 'dims', 'zero_data']);
    expect(Object.keys(warmup?.inputs['B'] ?? {})).toEqual([
      'data_type',
      'dims',
      'input_data_file',
    ]);
  });

  it('turns every 64-bit integer into a number', () => {
    const config = parse(`
      input { dims: [ -1, 3 ] reshape { shape: 3 } }
      version_policy { specific { versions: [ 1, 9007199254740991 ] } }
      dynamic_batching {
        max_queue_delay_microseconds: 100 priority_levels: 2 default_priority_level: 1
        default_queue_policy { default_timeout_microseconds: 7 }
        priority_queue_policy { key: 2 value { default_timeout_microseconds: 8 } }
      }
      instance_group { secondary_devices { device_id: 1 } }
      model_warmup { inputs { key: "A" value { dims: 4 } } }
      optimization { cuda { graph_spec { input { key: "A" value { dim: 5 } } } } }`);
    expect(JSON.stringify(config)).not.toMatch(/"-?\d+"[,}\]]/);
    expect(config.version_policy?.specific?.versions).toEqual([1, Number.MAX_SAFE_INTEGER]);
    expect(config.dynamic_batching?.priority_queue_policy['2']?.default_timeout_microseconds).toBe(
      8,
    );
  });

  it.each([
    [
      'the largest uint64',
      'dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 }',
    ],
    ['the largest int64', 'input { dims: 9223372036854775807 }'],
    ['the smallest int64', 'input { dims: -9223372036854775808 }'],
  ])('brings %s to a gRPC client as nearly as a number can', (_what, text) => {
    const config = parse(text);
    expect(toConfigDocument(modelConfigToMessage(config))).toEqual(config);
  });

  it('hides what is younger than the recordings unless it is set', () => {
    const limit = (text: string) => parse(text).ensemble_scheduling?.max_inflight_requests;
    expect(limit('ensemble_scheduling { }')).toBeUndefined();
    expect(limit('ensemble_scheduling { max_inflight_requests: 3 }')).toBe(3);
  });

  it('keeps a parameter with the name of a property of every object', () => {
    const { parameters } = parse('parameters { key: "constructor" value { string_value: "v" } }');
    expect(Object.entries(parameters)).toEqual([['constructor', { string_value: 'v' }]]);
  });

  it.each([
    [
      'max_batch_size 8',
      1,
      16,
      'max_batch_size',
      'expected ":" before value of field "max_batch_size"',
    ],
    [
      'name: "a"\n  no_such_field: 3',
      2,
      3,
      '',
      'unknown field "no_such_field" for inference.ModelConfig',
    ],
    [
      '\n\ninput {\n  name: "A"\n  data_type: TYPE_FLOAT32 }',
      5,
      14,
      'input.data_type',
      'unknown enum value "TYPE_FLOAT32" for DataType',
    ],
    [
      'input { data_type: "TYPE_FP32" }',
      1,
      20,
      'input.data_type',
      'expected an enum value for DataType, got a string',
    ],
    ['input [ { dims: [ 1, 2, ] } ]', 1, 25, 'input.dims', 'expected an integer, got "]"'],
    ['input { dims [ 1 ] }', 1, 14, 'input.dims', 'expected ":" before value of field "dims"'],
    ['input { dims: 1.5 }', 1, 15, 'input.dims', 'expected an integer, got "1.5"'],
    ['input { nme: "A" }', 1, 9, 'input', 'unknown field "nme" for inference.ModelInput'],
    ['name: resnet', 1, 7, 'name', 'expected a string, got "resnet"'],
    ['name: "a" name: "b"', 1, 11, '', 'non-repeated field "name" is repeated'],
    ['name: "a\n"', 1, 7, 'name', 'invalid U+000A in string'],
    ['name: "a', 1, 7, 'name', 'unterminated string'],
    ['input < name: "A" }', 1, 19, 'input', 'expected a field name, got "}"'],
    ['input { name: "A"', 1, 18, 'input', 'unexpected end of input, expected "}"'],
    ['}', 1, 1, '', 'expected a field name, got "}"'],
    [
      'max_batch_size: 2147483648',
      1,
      17,
      'max_batch_size',
      'expected number (int32): 2147483648 out of range',
    ],
    [
      'dynamic_batching { priority_levels: -1 }',
      1,
      38,
      'dynamic_batching.priority_levels',
      'an unsigned field does not accept a negative value',
    ],
    [
      'optimization { eager_batching: TRUE }',
      1,
      32,
      'optimization.eager_batching',
      'expected a bool, got "TRUE"',
    ],
    [
      'version_policy { all {} latest {} }',
      1,
      25,
      'version_policy',
      'oneof "policy_choice" is already set',
    ],
    ['[a.b] { }', 1, 1, '', 'unknown extension "[a.b]" for inference.ModelConfig'],
    ['name: "a"\n\u0001', 2, 1, '', 'unexpected U+0001'],
    ['metric_tags { kee: "a" }', 1, 15, 'metric_tags', 'unknown field "kee" in map entry'],
  ])('says where %j is wrong', (text, line, column, field, complaint) => {
    const place = `line ${line}, column ${column}${field === '' ? '' : ` in field "${field}"`}`;
    const error = failure(() => parse(text));
    expect(error.code).toBe('INVALID_ARG');
    expect(error.message).toBe(
      `failed to read text proto from config.pbtxt: ${place}: ${complaint}`,
    );
  });

  it('refuses an enum number without a name', () => {
    expect(failure(() => parse('input { data_type: 15 }')).message).toBe(
      'failed to read text proto from config.pbtxt: field "data_type" of inference.ModelInput: ' +
        'unknown enum value 15 for inference.DataType',
    );
  });

  it('finds the line of a mistake wherever it stands', () => {
    fc.assert(
      fc.property(fc.nat(60), fc.nat(60), (before, after) => {
        const field = 'input { name: "A" dims: [ 1, -1 ] } # { "\n';
        const text = `${field.repeat(before)}oops: 1\n${field.repeat(after)}`;
        expect(failure(() => parse(text)).message).toContain(`line ${before + 1}, column 1: `);
      }),
      { numRuns: 25 },
    );
  });

  it('answers any text with a document or an INVALID_ARG', () => {
    const fragments = fc.constantFrom(
      'input',
      '{',
      '}',
      '[',
      ']',
      ':',
      ',',
      '"a"',
      '1',
      '#',
      '\n',
      'dims',
      '<',
      '-',
      "'",
      '\\',
      'name',
      '\u0001',
      '\u0000',
      '.',
    );
    fc.assert(
      fc.property(fc.array(fragments, { maxLength: 20 }), (parts) => {
        try {
          parse(parts.join(' '));
        } catch (error) {
          expect(error).toBeInstanceOf(InferenceServerError);
        }
      }),
      { numRuns: 200 },
    );
  });
});

describe('parseModelConfigJson', () => {
  it('takes both spellings of names, any case of enums and numbers as text', () => {
    const camel =
      '{"maxBatchSize":4,"input":[{"name":"A","dataType":"type_fp32","dims":["1",2]}],"dynamicBatching":{"priorityQueuePolicy":{"1":{"timeoutAction":"delay"}}},"instanceGroup":[{"kind":"Kind-Cpu"}]}';
    const snake =
      '{"max_batch_size":4,"input":[{"name":"A","data_type":"TYPE_FP32","dims":[1,"2"]}],"dynamic_batching":{"priority_queue_policy":{"1":{"timeout_action":"DELAY"}}},"instance_group":[{"kind":2}]}';
    const config = parseModelConfigJson(camel);
    expect(config).toEqual(parseModelConfigJson(snake));
    expect(config.max_batch_size).toBe(4);
    expect(config.input[0]).toMatchObject({ data_type: 'TYPE_FP32', dims: [1, 2] });
    expect(config.dynamic_batching?.priority_queue_policy['1']?.timeout_action).toBe('DELAY');
  });

  it.each([
    ['{bad', /^Invalid config override: .*JSON/],
    [
      '{"no_such":1}',
      'Invalid config override: cannot decode inference.ModelConfig from JSON: key "no_such" is unknown',
    ],
    [
      '{"input":[{"data_type":"TYPE_X"}]}',
      'Invalid config override: cannot decode DataType from JSON: "TYPE_X"',
    ],
    [
      '{"input":[{"data_type":99}]}',
      'Invalid config override: field "data_type" of inference.ModelInput: unknown enum value 99 for inference.DataType',
    ],
    [
      '{"max_batch_size":"x"}',
      'Invalid config override: cannot decode field inference.ModelConfig.max_batch_size from JSON: expected number (int32), got "x"',
    ],
    ['{"dynamic_batching":{},"sequence_batching":{}}', /oneof set multiple times/],
    ['[]', /^Invalid config override: /],
    ['3', /^Invalid config override: /],
    ['null', /^Invalid config override: /],
    ['{"__proto__":{}}', /key "__proto__" is unknown/],
  ])('refuses %s', (text, message) => {
    const error = failure(() => parseModelConfigJson(text));
    expect(error.code).toBe('INVALID_ARG');
    if (typeof message === 'string') expect(error.message).toBe(message);
    else expect(error.message).toMatch(message);
  });

  it('keeps a parameter named __proto__ as data', () => {
    const { parameters } = parseModelConfigJson(
      '{"parameters":{"__proto__":{"string_value":"x"}}}',
    );
    expect(Object.keys(parameters)).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(parameters)).toBe(Object.prototype);
  });
});
