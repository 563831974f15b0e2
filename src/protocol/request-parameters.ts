import { invalidArg, unsupported } from '../errors.js';
import {
  noParameters,
  type Parameters,
  type ParameterValue,
  type SequenceFlags,
} from '../inference/infer-request.js';
import { readBoolean, readString, readUnsigned, unableToParse, untilNul } from './json-members.js';
import type { JsonText } from './json-scanner.js';

/** What the `parameters` of a request say. */
export interface RequestParameters {
  readonly parameters: Parameters;
  readonly priority: number;
  readonly timeoutUs: number;
  readonly sequence: SequenceFlags | undefined;
}

/** Beyond this they are no settings any more, and building them would hold the event loop. */
const parametersMax = 16_384;

const noRequestParameters = {
  parameters: noParameters,
  priority: 0,
  timeoutUs: 0,
  sequence: undefined,
  isBinaryOutput: false,
} as const;

/**
 * Reads `parameters` at `at`, negative where there are none. Throws INVALID_ARG for a value of the
 * wrong kind or a reserved name.
 */
export function readRequestParameters(
  json: JsonText,
  at: number,
): RequestParameters & { readonly isBinaryOutput: boolean } {
  if (at < 0) return noRequestParameters;
  if (json.kind(at) !== 'object') {
    throw invalidArg('failed to get request params.: attempt to get members for non-object');
  }
  const parameters = new Map<string, ParameterValue>();
  let priority = 0;
  let timeoutUs = 0;
  let correlationId: bigint | string | undefined;
  let start: boolean | undefined;
  let end: boolean | undefined;
  let isBinaryOutput = false;
  let members = 0;
  for (let key = json.firstMember(at); key >= 0; ) {
    if (++members > parametersMax) {
      throw invalidArg(`failed to get request params.: more than ${parametersMax} of them`);
    }
    const value = json.memberValue(key);
    const name = untilNul(json.string(key));
    const lead = unableToParse(name);
    switch (name) {
      case 'sequence_id':
        correlationId ??= readCorrelationId(json, value, lead);
        break;
      case 'sequence_start':
        start ??= readBoolean(json, value, lead);
        break;
      case 'sequence_end':
        end ??= readBoolean(json, value, lead);
        break;
      case 'priority':
        priority = readUnsigned(json, value, lead);
        break;
      case 'timeout':
        timeoutUs = readUnsigned(json, value, lead);
        break;
      case 'binary_data_output':
        isBinaryOutput = readBoolean(json, value, lead);
        break;
      default:
        if (name.startsWith('triton_')) {
          throw invalidArg(
            "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.",
          );
        }
        if (!parameters.has(name)) parameters.set(name, readParameterValue(json, value, name));
    }
    key = json.nextMember(value);
  }
  const hasSequence = correlationId !== undefined || start !== undefined || end !== undefined;
  return {
    parameters: parameters.size === 0 ? noParameters : parameters,
    priority,
    timeoutUs,
    sequence: hasSequence
      ? { correlationId: correlationId ?? 0n, start: start ?? false, end: end ?? false }
      : undefined,
    isBinaryOutput,
  };
}

/** Characters that the reference server keeps of a sequence id. */
const correlationIdMax = 128;

function readCorrelationId(json: JsonText, at: number, lead: string): bigint | string {
  const value = json.kind(at) === 'number' ? json.number(at) : undefined;
  if (typeof value === 'bigint' && value >= 0n) return value;
  const id = readString(json, at, lead);
  if (id.length > correlationIdMax) {
    throw unsupported(
      `string correlation ID cannot be longer than ${correlationIdMax} characters but got ${id.length}`,
    );
  }
  return id;
}

/** A parameter for the model: string, 64-bit integer, boolean or double. */
export function readParameterValue(json: JsonText, at: number, name: string): ParameterValue {
  switch (json.kind(at)) {
    case 'string':
      return untilNul(json.string(at));
    case 'boolean':
      return json.boolean(at);
    case 'number': {
      const value = json.number(at);
      // Beyond int64 the reference server goes on with a double.
      return typeof value === 'bigint' && value > 0x7fffffffffffffffn ? Number(value) : value;
    }
    case 'object':
    case 'array':
    case 'null':
      throw invalidArg(
        `parameter '${name}' has invalid type. It should be either 'int', 'bool', or 'string'.`,
      );
  }
}
