import { describe, expect, it } from 'vitest';
import { EnvelopeCache } from '../../src/protocol/envelope-cache.js';
import { type InferEnvelope, readInferEnvelope } from '../../src/protocol/infer-envelope.js';
import { JsonText } from '../../src/protocol/json-scanner.js';

function envelopeOf(header: string): InferEnvelope {
  const bytes = Buffer.from(header);
  return readInferEnvelope(new JsonText(bytes, bytes.byteLength));
}

/** Shows the cache a header; the body goes on behind it. */
function see(cache: EnvelopeCache, header: string): InferEnvelope | undefined {
  const bytes = Buffer.from(`${header}binary`);
  const found = cache.get(bytes, header.length);
  if (found === undefined) cache.offer(bytes, header.length, envelopeOf(header));
  return found;
}

describe('EnvelopeCache', () => {
  it('remembers a header from its second time on', () => {
    const cache = new EnvelopeCache();
    const header = '{"inputs":[]}';
    expect(see(cache, header)).toBeUndefined();
    expect(see(cache, header)).toBeUndefined();
    expect(see(cache, header)).toEqual(envelopeOf(header));
    expect(see(cache, '{"inputs": []}')).toBeUndefined();
  });

  it('compares all bytes, also those that the hash passes over', () => {
    const cache = new EnvelopeCache();
    const header = (name: string): string =>
      `{"inputs":[],"outputs":[{"name":"${name}"}],"x":"${' '.repeat(2000)}"}`;
    for (let times = 0; times < 2; times++) see(cache, header('A'));
    expect(see(cache, header('A'))?.requestedOutputs).toEqual(['A']);
    expect(see(cache, header('B'))).toBeUndefined();
  });

  it('leaves out an id that comes first', () => {
    const cache = new EnvelopeCache();
    for (const id of ['1', '22']) see(cache, `{"id":"${id}","inputs":[]}`);
    expect(see(cache, '{"id":"333","inputs":[]}')?.id).toBe('333');
    expect(see(cache, '{"id":"","inputs":[]}')?.id).toBe('');
    expect(see(cache, `{"id":"${'x'.repeat(128)}","inputs":[]}`)).toBeUndefined();
    expect(see(cache, '{"id":"a\\u0041","inputs":[]}')).toBeUndefined();
    expect(see(cache, '{"id":"é","inputs":[]}')).toBeUndefined();
    // A second id does not count, remembered or not.
    for (const id of ['1', '2']) see(cache, `{"id":"${id}","inputs":[],"id":"z"}`);
    expect(see(cache, '{"id":"3","inputs":[],"id":"z"}')?.id).toBe('3');
  });

  it('does not mistake the rest of a header for a whole one', () => {
    const cache = new EnvelopeCache();
    for (let times = 0; times < 3; times++) see(cache, '{"id":"1","inputs":[]}');
    const rest = Buffer.from('","inputs":[]}');
    expect(cache.get(rest, rest.byteLength)).toBeUndefined();
  });

  it('does not grow with headers that never repeat, nor keeps long ones', () => {
    const cache = new EnvelopeCache();
    const long = `{"inputs":[],"x":"${'y'.repeat(9000)}"}`;
    for (let times = 0; times < 3; times++) expect(see(cache, long)).toBeUndefined();
    const kept = '{"inputs":[],"kept":1}';
    for (let times = 0; times < 2; times++) see(cache, kept);
    for (let index = 0; index < 5000; index++) see(cache, `{"inputs":[],"n":"${index}"}`);
    expect(see(cache, kept)).toBeDefined();
  });
});
