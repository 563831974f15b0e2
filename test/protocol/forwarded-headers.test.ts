import { describe, expect, it } from 'vitest';
import { ForwardedHeaders } from '../../src/protocol/forwarded-headers.js';

function select(
  pattern: RegExp | undefined,
  headers: Readonly<Record<string, string>>,
): ReadonlyMap<string, string> | undefined {
  const lines = Object.entries(headers);
  return new ForwardedHeaders(pattern).select({
    visitHeaders(visit) {
      for (const [name, value] of lines) visit(name, value);
    },
  });
}

describe('ForwardedHeaders', () => {
  it.each([
    [/(x-fwd-.*)/i, 'x-fwd-a'],
    [/X-FWD-.*/i, 'x-fwd-a'],
    [/fwd/, 'x-fwd-a'],
    [/^x-\w+-[A-C]$/i, 'x-fwd-a'],
    [/\S+-a$/i, 'x-fwd-a'],
  ])('lets %s forward %s', (pattern, name) => {
    expect(select(pattern, { [name]: 'v', other: 'w' })).toEqual(new Map([[name, 'v']]));
  });

  it.each([
    [/X-FWD-.*/, 'x-fwd-a'],
    [/^fwd/i, 'x-fwd-a'],
    [undefined, 'x-fwd-a'],
  ])('does not let %s forward %s', (pattern, name) => {
    expect(select(pattern, { [name]: 'v' })).toBeUndefined();
  });

  it.each(['priority', 'timeout', 'sequence_id', 'binary_data_output', 'headers', 'triton_x'])(
    'refuses to forward %s',
    (name) => {
      expect(() => select(/./, { [name]: 'v' })).toThrow(
        `Header '${name}' is reserved for Triton usage and cannot be forwarded.`,
      );
    },
  );

  it('takes linear time for a pattern that backtracks elsewhere', () => {
    const name = `${'a'.repeat(5000)}!`;
    expect(select(/^(a+)+$/, { [name]: 'v' })).toBeUndefined();
  });

  it.each([/(?=a)/, /(a)\1/])('refuses the pattern %s, which has no linear engine', (pattern) => {
    expect(() => new ForwardedHeaders(pattern)).toThrow(/as a pattern of headers to forward/);
  });
});
