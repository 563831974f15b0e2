import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { errorBody, httpStatusOf } from '../../src/protocol/error-status.js';
import { appendJsonString, decodeText, encodeText } from '../../src/protocol/json-text.js';

describe('texts of the wire', () => {
  it('come back as the bytes they were, UTF-8 or not', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (bytes) => {
        expect(new Uint8Array(encodeText(decodeText(bytes)))).toEqual(bytes);
      }),
      { numRuns: 2000 },
    );
  });

  it.each([
    ['é中😀', 'é中😀'],
    ['\xff\xfeA', '\udcff\udcfeA'],
    // Cut off, overlong, a surrogate, beyond Unicode.
    ['\xe4\xb8', '\udce4\udcb8'],
    ['\xc0\x80', '\udcc0\udc80'],
    ['\xed\xb8\x80', '\udced\udcb8\udc80'],
    ['\xf4\x90\x80\x80', '\udcf4\udc90\udc80\udc80'],
  ])('read as strings', (bytes, text) => {
    const isUtf8 = bytes === text;
    expect(decodeText(Buffer.from(bytes, isUtf8 ? 'utf8' : 'latin1'))).toBe(text);
  });

  it('are escaped where JSON needs it and nowhere else', () => {
    expect(appendJsonString('x:', '"\\/\b\f\n\r\t\u0001\u007fé\udcff')).toBe(
      'x:"\\"\\\\/\\b\\f\\n\\r\\t\\u0001\u007fé\udcff"',
    );
  });
});

describe('errorBody', () => {
  it('passes the bytes of a client through', () => {
    expect(errorBody({ message: `[request id: \udcff] "x"` })).toEqual(
      Buffer.from('{"error":"[request id: \xff] \\"x\\""}', 'latin1'),
    );
  });
});

describe('httpStatusOf', () => {
  it('is the table of the reference server', () => {
    expect(httpStatusOf).toEqual({
      UNKNOWN: 400,
      INTERNAL: 500,
      NOT_FOUND: 404,
      INVALID_ARG: 400,
      UNAVAILABLE: 503,
      UNSUPPORTED: 501,
      ALREADY_EXISTS: 400,
      CANCELLED: 400,
    });
  });
});
