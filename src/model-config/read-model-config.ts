import { type DescMessage, fromJson, type JsonValue } from '@bufbuild/protobuf';
import { fromText } from '@bufbuild/protobuf/txtpb';
import { InferenceServerError, invalidArg } from '../errors.js';
import { messageDescriptor } from '../proto/descriptors.js';
import { toConfigDocument } from './config-document.js';
import type { ModelConfig } from './model-config.js';
import { locateParseError } from './text-position.js';

/**
 * A configuration file in protobuf's text format as a document in which every scalar has its
 * default. Nothing is derived yet: see `completeModelConfig`. A byte order mark is skipped. What is
 * wrong is INVALID_ARG with `fileName`, line, column and field.
 */
export function parseModelConfigText(text: string, fileName: string): ModelConfig {
  const source = text.startsWith('\uFEFF') ? text.slice(1) : text;
  const parse = (part: string) => fromText(modelConfigDescriptor(), part);
  try {
    return toConfigDocument(parse(source));
  } catch (error) {
    const place = error instanceof InferenceServerError ? '' : placeOf(source, parse);
    throw invalidArg(
      `failed to read text proto from ${fileName}: ${place}${complaintOf(error)}`,
      error,
    );
  }
}

/**
 * A configuration in JSON, as a load call brings it: proto or camelCase names, enum names in any
 * case, 64-bit integers as numbers or text. Unknown fields are INVALID_ARG.
 */
export function parseModelConfigJson(text: string): ModelConfig {
  try {
    const descriptor = modelConfigDescriptor();
    // JSON.parse answers any; what it gives is a JSON value by definition.
    const json: JsonValue = JSON.parse(text);
    return toConfigDocument(fromJson(descriptor, withEnumNamesUpperCased(json, descriptor)));
  } catch (error) {
    throw invalidArg(`Invalid config override: ${complaintOf(error)}`, error);
  }
}

function placeOf(text: string, parse: (text: string) => unknown): string {
  const { line, column, fieldPath } = locateParseError(text, parse);
  const field = fieldPath === '' ? '' : ` in field "${fieldPath}"`;
  return `line ${line}, column ${column}${field}: `;
}

function modelConfigDescriptor(): DescMessage {
  return messageDescriptor('inference.ModelConfig');
}

/** The parser's own words, without what the position already says. */
function complaintOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return message
    .replace(/^cannot decode field \S+ from text format: /, '')
    .replaceAll('message inference.', 'inference.')
    .replaceAll('enum inference.', '');
}

/** The form of enum names that the JSON parser knows: upper case, with underscores. */
function withEnumNamesUpperCased(json: JsonValue, descriptor: DescMessage): JsonValue {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) return json;
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => {
      const field = descriptor.fields.find((one) => one.name === name || one.jsonName === name);
      if (field?.message !== undefined) {
        const message = field.message;
        return [
          name,
          mapValues(value, field.fieldKind, (v) => withEnumNamesUpperCased(v, message)),
        ];
      }
      if (field?.enum !== undefined) return [name, mapValues(value, field.fieldKind, upperCased)];
      return [name, value];
    }),
  );
}

function mapValues(
  value: JsonValue,
  fieldKind: 'list' | 'map' | 'message' | 'enum' | 'scalar',
  transform: (value: JsonValue) => JsonValue,
): JsonValue {
  if (fieldKind === 'list' && Array.isArray(value)) return value.map(transform);
  if (fieldKind === 'map' && typeof value === 'object' && value !== null && !Array.isArray(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, transform(item)]));
  }
  return transform(value);
}

function upperCased(value: JsonValue): JsonValue {
  return typeof value === 'string' ? value.toUpperCase().replaceAll('-', '_') : value;
}
