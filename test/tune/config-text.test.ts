import { describe, expect, it } from 'vitest';
import type { Candidate } from '../../src/tune/candidate.js';
import { formatLines, mergeConfigText } from '../../src/tune/config-text.js';

const defaults: Candidate = {
  instances: 1,
  threads: 0,
  maxBatchSize: 4,
  queueDelayUs: 0,
  preferredBatchSize: 0,
};

const all = {
  instances: 2,
  threads: 1,
  maxBatchSize: 32,
  queueDelayUs: 300,
  preferredBatchSize: 16,
};

describe('formatLines', () => {
  it('says what changed, and nothing else', () => {
    expect(formatLines({ ...defaults, ...all }, defaults)).toBe(
      [
        'instance_group [ { kind: KIND_CPU count: 2 } ]',
        'parameters { key: "intra_op_thread_count" value { string_value: "1" } }',
        'max_batch_size: 32',
        'dynamic_batching { max_queue_delay_microseconds: 300 preferred_batch_size: [ 16 ] }',
        '',
      ].join('\n'),
    );
    expect(formatLines(defaults, defaults)).toBe('');
  });
});

const cases: readonly (readonly [string, string, Partial<Candidate>, string])[] = [
  ['an empty text', '', { instances: 2 }, 'instance_group [ { kind: KIND_CPU count: 2 } ]\n'],
  ['a text without a line end', 'name: "m"', { maxBatchSize: 8 }, 'name: "m"\nmax_batch_size: 8\n'],
  [
    'a value that is there, between comments',
    '# batches\nmax_batch_size : 4 # four\nname: "m"\n',
    { maxBatchSize: 16 },
    '# batches\nmax_batch_size : 16 # four\nname: "m"\n',
  ],
  [
    'a group in a list',
    'instance_group [\n  {\n    kind: KIND_CPU\n    count: 1\n  }\n]\n',
    { instances: 3 },
    'instance_group [\n  {\n    kind: KIND_CPU\n    count: 3\n  }\n]\n',
  ],
  [
    'a group without a count',
    'instance_group { kind: KIND_CPU }\n',
    { instances: 3 },
    'instance_group { kind: KIND_CPU count: 3 }\n',
  ],
  [
    'a group in angle brackets',
    'instance_group: < count: 1; kind: KIND_CPU >\n',
    { instances: 3 },
    'instance_group: < count: 3; kind: KIND_CPU >\n',
  ],
  [
    'batching with policies of its own',
    'dynamic_batching {\n  preferred_batch_size: 2\n  # keep\n  priority_levels: 2 default_priority_level: 1\n  preferred_batch_size: [ 3, 4 ]\n}\n',
    { queueDelayUs: 100, preferredBatchSize: 8 },
    'dynamic_batching {\n  preferred_batch_size: [ 8 ]\n  # keep\n  priority_levels: 2 default_priority_level: 1\n  \nmax_queue_delay_microseconds: 100 }\n',
  ],
  [
    'batching that is empty',
    'dynamic_batching { }\n',
    { queueDelayUs: 100 },
    'dynamic_batching { max_queue_delay_microseconds: 100 }\n',
  ],
  [
    'other parameters, and strings that look like fields',
    'parameters { key: "max_batch_size: 9 }" value: { string_value: \'# {\' "}" } }\n',
    { threads: 2, maxBatchSize: 8 },
    'parameters { key: "max_batch_size: 9 }" value: { string_value: \'# {\' "}" } }\nparameters { key: "intra_op_thread_count" value { string_value: "2" } }\nmax_batch_size: 8\n',
  ],
  [
    'the parameter in a list of several',
    'parameters [ { key: "a" value { string_value: "b" } }, { key: "intra_op_thread_count", value { string_value: "4" } } ]\n',
    { threads: 2 },
    'parameters [ { key: "a" value { string_value: "b" } }, { key: "intra_op_thread_count", value { string_value: "2" } } ]\n',
  ],
];

describe('mergeConfigText', () => {
  it.each(cases)('changes %s', (_, text, changed, expected) => {
    expect(mergeConfigText(text, { ...defaults, ...changed }, defaults)).toBe(expected);
  });

  it('leaves a text as it is where nothing changed', () => {
    const text = 'max_batch_size: 4 # four\n';
    expect(mergeConfigText(text, defaults, defaults)).toBe(text);
  });

  it.each([
    ['is no configuration', 'max_batch_size: {', { maxBatchSize: 8 }, 'line 1'],
    [
      'says a thing twice',
      'max_batch_size: 4\nmax_batch_size: 4',
      { maxBatchSize: 8 },
      'config.pbtxt',
    ],
    [
      'has several groups',
      'instance_group [ { count: 1 }, { count: 2 } ]',
      { instances: 8 },
      'by hand',
    ],
  ])('refuses a text that %s', (_, text, changed, message) => {
    expect(() => mergeConfigText(text, { ...defaults, ...changed }, defaults)).toThrow(message);
  });
});
