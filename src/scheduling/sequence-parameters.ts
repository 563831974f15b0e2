import type { Parameters, ParameterValue, SequenceFlags } from '../inference/infer-request.js';

/** Flags that a response's own parameters set; undefined where it has none of them. */
export function sequenceOf(
  parameters: Parameters,
  requested: SequenceFlags | undefined,
): SequenceFlags | undefined {
  if (parameters.size === 0) return undefined;
  const id = parameters.get('sequence_id');
  const start = parameters.get('sequence_start');
  const end = parameters.get('sequence_end');
  if (id === undefined && start === undefined && end === undefined) return undefined;
  return {
    correlationId:
      typeof id === 'bigint' || typeof id === 'string' ? id : (requested?.correlationId ?? 0n),
    start: start === true,
    end: end === true,
  };
}

const noSequenceParameters = sequenceParameters({ correlationId: 0n, start: false, end: false });

/** What the reference server adds to every response of an ensemble. */
export function sequenceParameters(sequence: SequenceFlags | undefined): Parameters {
  if (sequence === undefined) return noSequenceParameters;
  const { correlationId, start, end } = sequence;
  return new Map<string, ParameterValue>([
    [
      'sequence_id',
      typeof correlationId === 'bigint' ? BigInt.asIntN(64, correlationId) : correlationId,
    ],
    ['sequence_start', start],
    ['sequence_end', end],
  ]);
}
