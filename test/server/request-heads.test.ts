import { describe, expect, it } from 'vitest';
import type { InferenceRequest } from '../../src/inference/infer-request.js';
import { RequestHeads } from '../../src/server/request-heads.js';
import { inferenceRequest } from '../support/pending-requests.js';

describe('the heads of requests', () => {
  it.each<[string, Partial<InferenceRequest>, boolean]>([
    ['that differ in their id', { id: 'b' }, true],
    ['with a parameter', { parameters: new Map([['k', 1n]]) }, false],
    ['of a sequence', { sequence: { correlationId: 1n, start: false, end: false } }, false],
    ['with another timeout', { timeoutUs: 5 }, false],
    ['with another priority', { priority: 1 }, false],
    ['that prefer text', { prefersJsonText: true }, false],
    ['that ask for another output', { requestedOutputs: ['OTHER'] }, false],
    ['that ask for more outputs', { requestedOutputs: ['OUT', 'OTHER'] }, false],
    ['that ask for all outputs', { requestedOutputs: [] }, false],
  ])('%s: shared or not', (_what, fields, areShared) => {
    const heads = new RequestHeads((names) => names);
    const common = { id: 'a', requestedOutputs: ['OUT'] };
    const inputs = [] as const;
    const first = heads.of(inferenceRequest(common), inputs);
    const request = inferenceRequest({ ...common, ...fields });
    const second = heads.of(request, inputs);
    expect(first === second).toBe(areShared);
    const { sequence, parameters } = request;
    expect(second).toEqual({
      parameters: [...parameters],
      correlationId: sequence?.correlationId ?? 0n,
      flags: 0,
      timeoutUs: request.timeoutUs,
      priority: request.priority,
      requestedOutputs: request.requestedOutputs,
      prefersJsonText: request.prefersJsonText,
      inputs,
    });
  });

  it('are not shared by requests with other inputs', () => {
    const heads = new RequestHeads((names) => names);
    const request = inferenceRequest({});
    expect(heads.of(request, [])).not.toBe(heads.of(request, []));
  });

  it('name the outputs that the model has to make', () => {
    const heads = new RequestHeads((names) => [...names, 'STATE']);
    const head = heads.of(inferenceRequest({ requestedOutputs: ['OUT'] }), []);
    expect(head.requestedOutputs).toEqual(['OUT', 'STATE']);
  });
});
