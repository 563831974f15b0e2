import { InferenceServerError, invalidArg } from '../errors.js';
import type { JsonText } from './json-scanner.js';

/*
 * Typed access to members of a JSON text, failing with the texts that clients of the reference
 * server know: `Unable to parse 'shape': attempt to access JSON non-array as array`. Every reader
 * takes the offset of a value, negative for a member that is not there.
 */

/** `Unable to parse 'name'`, the lead of most texts. */
export function unableToParse(name: string): string {
  return `Unable to parse '${name}'`;
}

/** INVALID_ARG in the reference server's words; `lead` begins them. */
export function missingMember(lead: string, name: string): InferenceServerError {
  return invalidArg(`${lead}: attempt to access non-existing object member '${name}'`);
}

/** Offset of the array that `name` must be. */
export function requireArray(json: JsonText, at: number, name: string): number {
  if (at < 0) throw missingMember(unableToParse(name), name);
  if (json.kind(at) !== 'array') throw wrongKind(unableToParse(name), 'array', 'array');
  return at;
}

/** A string up to its first NUL: names and ids are C strings to the reference server. */
export function requireString(json: JsonText, at: number, name: string): string {
  if (at < 0) throw missingMember(unableToParse(name), name);
  return readString(json, at, unableToParse(name));
}

/** The string at `at`, up to a NUL as C ends it. INVALID_ARG where it is none. */
export function readString(json: JsonText, at: number, lead: string): string {
  if (json.kind(at) !== 'string') throw wrongKind(lead, 'string', 'string');
  return untilNul(json.string(at));
}

/** The boolean at `at`. INVALID_ARG where it is none. */
export function readBoolean(json: JsonText, at: number, lead: string): boolean {
  if (json.kind(at) !== 'boolean') throw wrongKind(lead, 'boolean', 'boolean');
  return json.boolean(at);
}

/** An unsigned integer of at most 64 bits; beyond 2^53 only its size is kept. */
export function readUnsigned(json: JsonText, at: number, lead: string): number {
  const value = json.smallUnsigned(at);
  return value >= 0 ? value : Number(readUnsignedExact(json, at, lead));
}

/** An unsigned integer of at most 64 bits, exactly. INVALID_ARG where it is none. */
export function readUnsignedExact(json: JsonText, at: number, lead: string): bigint {
  const value = json.kind(at) === 'number' ? json.number(at) : undefined;
  if (typeof value !== 'bigint' || value < 0n) {
    throw wrongKind(lead, 'unsigned-integer', 'unsigned-integer');
  }
  return value;
}

function wrongKind(lead: string, kind: string, wanted: string): InferenceServerError {
  return invalidArg(`${lead}: attempt to access JSON non-${kind} as ${wanted}`);
}

/** What a C string would keep of `text`. */
export function untilNul(text: string): string {
  const nul = text.indexOf('\0');
  return nul < 0 ? text : text.slice(0, nul);
}

const leads = /^Unable to (parse|set) /;

/**
 * `thrown` with the tensor it is about. The reference server says only `Unable to parse 'shape'`,
 * which helps little among twenty tensors; texts that name their tensor stay as they are.
 */
export function namingPlace(thrown: unknown, place: string): unknown {
  if (!(thrown instanceof InferenceServerError) || !leads.test(thrown.message)) return thrown;
  return new InferenceServerError(thrown.code, `${thrown.message} (${place})`, thrown);
}
