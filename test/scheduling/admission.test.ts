import { describe, expect, it } from 'vitest';
import { Admission } from '../../src/scheduling/admission.js';

describe('Admission', () => {
  it('lets exactly as many requests in as the limit says', () => {
    const admission = new Admission({ requestsMax: 2, bytesMax: 0 });
    const leave = admission.enter(5);
    admission.enter(5);
    expect(() => admission.enter(5)).toThrow(
      expect.objectContaining({
        code: 'UNAVAILABLE',
        message: 'server has reached its limit of 2 requests in flight',
        retryAfterSecs: 1,
      }),
    );
    leave();
    admission.enter(5);
    expect(admission.requests).toBe(2);
  });

  it('lets exactly as many bytes in as the limit says', () => {
    const admission = new Admission({ requestsMax: 0, bytesMax: 100 });
    const leave = admission.enter(60);
    admission.enter(40);
    expect(() => admission.enter(1)).toThrow(
      expect.objectContaining({
        code: 'UNAVAILABLE',
        message:
          'server has reached its limit of 100 bytes in flight: 100 are, 1 more were refused',
        retryAfterSecs: 1,
      }),
    );
    admission.enter(0);
    leave();
    admission.enter(60);
    expect(admission.bytes).toBe(100);
  });

  it('never lets a single body above the limit in', () => {
    const admission = new Admission({ requestsMax: 0, bytesMax: 100 });
    expect(() => admission.enter(101)).toThrow('100 bytes');
    expect(admission.requests).toBe(0);
  });

  it('counts a request out once, however often it leaves', () => {
    const admission = new Admission({ requestsMax: 0, bytesMax: 0 });
    admission.enter(1);
    const leave = admission.enter(2);
    leave();
    leave();
    expect(admission.requests).toBe(1);
    expect(admission.bytes).toBe(1);
  });

  it('has no limits where they are 0', () => {
    const admission = new Admission({ requestsMax: 0, bytesMax: 0 });
    for (let index = 0; index < 1000; index += 1) admission.enter(1e9);
    expect(admission.requests).toBe(1000);
  });
});
