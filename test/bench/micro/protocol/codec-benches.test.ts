import { describe, expect, it } from 'vitest';
import { measureInferCodecs } from '../../../../bench/micro/protocol/infer-codecs.bench.js';
import { measureTensorJson } from '../../../../bench/micro/protocol/tensor-json.bench.js';

describe('micro benchmarks of the codecs', () => {
  it('measure infer requests and responses in every form', () => {
    for (const { parseNs, encodeNs } of measureInferCodecs(4)) {
      expect(parseNs).toBeGreaterThan(0);
      expect(encodeNs).toBeGreaterThan(0);
    }
  });

  it('measure arrays whose elements come back as they were', () => {
    for (const { decodeNs, encodeNs } of measureTensorJson(10)) {
      expect(decodeNs).toBeGreaterThan(0);
      expect(encodeNs).toBeGreaterThan(0);
    }
  });
});
