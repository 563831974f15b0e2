import {
  type DescEnum,
  type DescField,
  fromJson,
  type JsonObject,
  type JsonValue,
  type Message,
  ScalarType,
  toBinary,
} from '@bufbuild/protobuf';
import { type ReflectMessage, reflect } from '@bufbuild/protobuf/reflect';
import { invalidArg } from '../errors.js';
import { messageDescriptor } from '../proto/descriptors.js';
import type { ModelConfig } from './model-config.js';

/** Fields younger than the recorded reference server: absent at their default, as it shows them. */
const hiddenAtDefault: ReadonlySet<string> = new Set([
  'inference.ModelEnsembling.max_inflight_requests',
]);

const int64Max = 2n ** 63n - 1n;
/** The largest doubles that an int64 and a uint64 field take. */
const int64DoubleMax = 2 ** 63 - 1024;
const uint64DoubleMax = 2 ** 64 - 2048;

/**
 * An `inference.ModelConfig` message as the plain document: proto names, declaration order, all
 * fields without presence at their defaults, enum values by name, 64-bit integers as numbers.
 * An enum number without a name is INVALID_ARG.
 */
export function toConfigDocument(message: Message): ModelConfig {
  const document = messageDocument(reflect(messageDescriptor('inference.ModelConfig'), message));
  // The descriptor that drove the walk is what the interface was written from.
  return document as unknown as ModelConfig;
}

/** The document as an `inference.ModelConfig` message, for a gRPC response. */
export function modelConfigToMessage(config: ModelConfig): Message {
  return fromJson(messageDescriptor('inference.ModelConfig'), config as unknown as JsonValue);
}

/** The document in protobuf's binary form. */
export function modelConfigToProto(config: ModelConfig): Uint8Array {
  return toBinary(messageDescriptor('inference.ModelConfig'), modelConfigToMessage(config));
}

/** The same document with its fields in the order of the .proto file, in which they are shown. */
export function inDocumentOrder(config: ModelConfig): ModelConfig {
  const values = new Map<string, unknown>(Object.entries(config));
  const names = messageDescriptor('inference.ModelConfig').fields.map((field) => field.name);
  const entries = names.filter((name) => values.has(name)).map((name) => [name, values.get(name)]);
  return Object.fromEntries(entries);
}

function messageDocument(message: ReflectMessage): JsonObject {
  const entries: [string, JsonValue][] = [];
  for (const field of message.fields) {
    const isPresent = message.isSet(field);
    if (!isPresent && (hasPresence(field) || hiddenAtDefault.has(qualifiedName(field)))) continue;
    entries.push([field.name, fieldDocument(message, field)]);
  }
  // Object.fromEntries defines each key, so that one named __proto__ is data like any other.
  return Object.fromEntries(entries);
}

function hasPresence(field: DescField): boolean {
  return field.fieldKind === 'message' || field.oneof !== undefined;
}

function qualifiedName(field: DescField): string {
  return `${field.parent.typeName}.${field.name}`;
}

function fieldDocument(message: ReflectMessage, field: DescField): JsonValue {
  switch (field.fieldKind) {
    case 'message':
      return messageDocument(message.get(field));
    case 'enum':
      return enumName(field.enum, message.get(field), field);
    case 'scalar':
      return scalarDocument(message.get(field), field.scalar);
    case 'list':
      return Array.from(message.get(field), (item) => itemDocument(item, field));
    case 'map':
      return Object.fromEntries(
        Array.from(message.get(field), ([key, value]) => [String(key), itemDocument(value, field)]),
      );
  }
}

function itemDocument(item: unknown, field: DescField & { fieldKind: 'list' | 'map' }): JsonValue {
  if (field.message !== undefined) return messageDocument(item as ReflectMessage);
  if (field.enum !== undefined) return enumName(field.enum, item, field);
  return scalarDocument(item, field.scalar);
}

function enumName(descriptor: DescEnum, number: unknown, field: DescField): string {
  const value = descriptor.values.find((candidate) => candidate.number === number);
  if (value === undefined) {
    throw invalidArg(
      `field "${field.name}" of ${field.parent.typeName}: unknown enum value ${number} for ` +
        `${descriptor.typeName}`,
    );
  }
  return value.name;
}

function scalarDocument(value: unknown, type: ScalarType | undefined): JsonValue {
  if (typeof value === 'bigint') return integerNumber(value);
  if (typeof value === 'number' && type === ScalarType.FLOAT) return shortestFloat(value);
  // No field of the configuration is of type bytes.
  return value as string | number | boolean;
}

/**
 * The nearest number that still fits the field when it is written back, so that the largest 64-bit
 * integers (people write them for "no limit") survive the way to a gRPC client.
 */
function integerNumber(value: bigint): number {
  return Math.min(Number(value), value > int64Max ? uint64DoubleMax : int64DoubleMax);
}

/** 0.1 for the float nearest to 0.1, instead of all the digits that a double has. */
function shortestFloat(value: number): number {
  for (let digits = 6; digits <= 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return value;
}
