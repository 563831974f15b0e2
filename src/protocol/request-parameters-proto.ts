import { type InferenceServerError, invalidArg } from '../errors.js';
import {
  noParameters,
  type Parameters,
  type ParameterValue,
  type SequenceFlags,
} from '../inference/infer-request.js';
import type { ParameterMessage, ParameterMessages } from './infer-message-proto.js';

/** What the parameters of an infer request say. */
export interface RequestParameters {
  /** For the model: those that mean nothing to the server. */
  readonly parameters: Parameters;
  readonly priority: number;
  readonly timeoutUs: number;
  readonly sequence: SequenceFlags | undefined;
  /** A decoupled model's end is told in a response of its own. */
  readonly wantsEmptyFinalResponse: boolean;
}

const noRequestParameters: RequestParameters = {
  parameters: noParameters,
  priority: 0,
  timeoutUs: 0,
  sequence: undefined,
  wantsEmptyFinalResponse: false,
};

const int64Max = 0x7fffffffffffffffn;

/** Throws INVALID_ARG with the reference server's texts (protocol.md 2.2). */
export function readRequestParameters(messages: ParameterMessages): RequestParameters {
  if (messages.size === 0) return noRequestParameters;
  const parameters = new Map<string, ParameterValue>();
  let { priority, timeoutUs, wantsEmptyFinalResponse } = noRequestParameters;
  let correlationId: bigint | string | undefined;
  let start: boolean | undefined;
  let end: boolean | undefined;
  for (const [name, message] of messages) {
    switch (name) {
      case 'sequence_id':
        correlationId = readCorrelationId(message);
        break;
      case 'sequence_start':
        start = readFlag(name, message);
        break;
      case 'sequence_end':
        end = readFlag(name, message);
        break;
      case 'priority':
        priority = readUnsigned(name, message);
        break;
      case 'timeout':
        timeoutUs = readUnsigned(name, message);
        break;
      case 'triton_enable_empty_final_response':
        wantsEmptyFinalResponse = readFlag(name, message);
        break;
      default:
        if (name.startsWith('triton_')) {
          throw invalidArg(
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
          );
        }
        parameters.set(name, readValue(name, message));
    }
  }
  const hasSequence = correlationId !== undefined || start !== undefined || end !== undefined;
  return {
    parameters: parameters.size === 0 ? noParameters : parameters,
    priority,
    timeoutUs,
    sequence: hasSequence
      ? { correlationId: correlationId ?? 0n, start: start ?? false, end: end ?? false }
      : undefined,
    wantsEmptyFinalResponse,
  };
}

/** Negative numbers are the unsigned ones of the same bits, as in the reference server. */
function readCorrelationId(message: ParameterMessage): bigint | string {
  switch (message.kind) {
    case 'int64_param':
    case 'uint64_param':
      return BigInt.asUintN(64, message.value);
    case 'string_param':
      return message.value;
    case 'bool_param':
    case 'double_param':
    case 'none':
      throw wrongKind('sequence_id', 'int64_param or string_param');
  }
}

function readFlag(name: string, message: ParameterMessage): boolean {
  if (message.kind !== 'bool_param') throw wrongKind(name, 'bool_param');
  return message.value;
}

function readUnsigned(name: string, message: ParameterMessage): number {
  if (message.kind !== 'int64_param' && message.kind !== 'uint64_param') {
    throw wrongKind(name, name === 'priority' ? 'int64_param or uint64_param' : 'int64_param');
  }
  if (message.value < 0n) {
    throw invalidArg(`invalid value for '${name}' parameter, expected >= 0`);
  }
  return Number(message.value);
}

function readValue(name: string, message: ParameterMessage): ParameterValue {
  switch (message.kind) {
    case 'bool_param':
    case 'int64_param':
    case 'string_param':
    case 'double_param':
      return message.value;
    case 'uint64_param':
      // A parameter's integer is an int64; beyond it a double stands in, as in JSON.
      return message.value > int64Max ? Number(message.value) : message.value;
    case 'none':
      throw wrongKind(name, 'bool_param, int64_param, string_param or double_param');
  }
}

function wrongKind(name: string, expected: string): InferenceServerError {
  return invalidArg(`invalid value type for '${name}' parameter, expected ${expected}.`);
}
