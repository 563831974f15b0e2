import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { InferenceServerError } from '../../src/errors.js';
import { decodeBytesElements, encodeBytesElements } from '../../src/inference/bytes-elements.js';

describe('BYTES elements', () => {
  it('have a length of four bytes, little-endian, before each', () => {
    expect(encodeBytesElements([Buffer.from('ab'), Buffer.alloc(258)]).subarray(0, 10)).toEqual(
      Uint8Array.of(2, 0, 0, 0, 0x61, 0x62, 2, 1, 0, 0),
    );
  });

  it('come back as they were written', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array()), (elements) => {
        expect(decodeBytesElements(encodeBytesElements(elements))).toEqual(elements);
      }),
    );
  });

  it('fail with INVALID_ARG where they are cut off, and with nothing else', () => {
    expect(() => decodeBytesElements(Uint8Array.of(1, 0))).toThrow(
      'incomplete string length indicator, expecting 4 bytes but only 2 bytes available',
    );
    expect(() => decodeBytesElements(Uint8Array.of(255, 255, 255, 255, 1))).toThrow(
      'incomplete string data, expecting string of length 4294967295 but only 1 bytes available',
    );
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        try {
          decodeBytesElements(bytes);
        } catch (error) {
          expect(error).toBeInstanceOf(InferenceServerError);
        }
      }),
    );
  });
});
