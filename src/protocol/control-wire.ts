import { type InferenceServerError, invalidArg, unavailable, unsupported } from '../errors.js';
import { JsonText } from './json-scanner.js';

/*
 * Bodies of calls that manage the server: repository, shared memory, log and trace settings. They
 * are small and rare. Texts follow the reference server, which names no member in them.
 */

/** `{"ready": true}` of a repository index call; false where nothing is said. */
export function parseIndexRequest(body: Uint8Array): boolean {
  const json = parseOptional(body);
  const ready = json === undefined ? -1 : findMember(json, json.root, 'ready');
  return json !== undefined && ready >= 0 && booleanAt(json, ready);
}

/** Body of a load call: what takes the place of the files in the repository. */
export interface LoadRequest {
  /** A model configuration as JSON text. */
  readonly config: string | undefined;
  /** Path relative to the model's folder → content. */
  readonly files: ReadonlyMap<string, Uint8Array>;
}

/** Parameters of a repository load call. */
export function parseLoadRequest(body: Uint8Array): LoadRequest {
  const files = new Map<string, Uint8Array>();
  let config: string | undefined;
  const json = parseOptional(body);
  const parameters = json === undefined ? -1 : findMember(json, json.root, 'parameters');
  if (json === undefined || parameters < 0) return { config, files };
  if (json.kind(parameters) !== 'object') throw noMembers();
  for (const [name, value] of membersOf(json, parameters)) {
    const text = stringAt(json, value);
    if (name === 'config') {
      config ??= text;
    } else if (name.startsWith('file:')) {
      const path = name.slice('file:'.length);
      if (!files.has(path)) files.set(path, Buffer.from(text, 'base64'));
    } else {
      throw invalidArg(
        `Unrecognized load parameter '${name}' with type string: unexpected error on creating Triton parameter`,
      );
    }
  }
  return { config, files };
}

/** `unload_dependents` of a repository unload call. Whatever else the body is, it is not read. */
export function parseUnloadRequest(body: Uint8Array): boolean {
  try {
    const json = parseOptional(body);
    const parameters = json === undefined ? -1 : findMember(json, json.root, 'parameters');
    if (json === undefined || parameters < 0) return false;
    const value = findMember(json, parameters, 'unload_dependents');
    return value >= 0 && json.kind(value) === 'boolean' && json.boolean(value);
  } catch {
    // The reference server unloads even when the body is no JSON at all.
    return false;
  }
}

/** A region of shared memory that a client registers. Sizes and offsets in bytes. */
export interface RegionRegistration {
  readonly key: string;
  readonly offset: number;
  readonly byteSize: number;
}

/** Body of a system shared memory register call. */
export function parseRegionRegistration(body: Uint8Array): RegionRegistration {
  const json = new JsonText(body, body.byteLength);
  const key = findMember(json, json.root, 'key');
  if (key < 0) throw missingRegionField('key');
  const keyText = stringAt(json, key);
  const offset = findMember(json, json.root, 'offset');
  const offsetBytes = offset < 0 ? 0 : unsignedAt(json, offset);
  const byteSize = findMember(json, json.root, 'byte_size');
  if (byteSize < 0) throw missingRegionField('byte_size');
  return { key: keyText, offset: offsetBytes, byteSize: unsignedAt(json, byteSize) };
}

/** Body of a system shared memory status call. */
export function regionStatusBody(
  regions: readonly (RegionRegistration & { readonly name: string })[],
): Uint8Array {
  const rows = regions.map(({ name, key, offset, byteSize }) => ({
    name,
    key,
    offset,
    byte_size: byteSize,
  }));
  return Buffer.from(JSON.stringify(rows), 'utf8');
}

/** Settings of `/v2/logging`, by their wire names. */
export interface LogSettings {
  readonly log_file: string;
  readonly log_info: boolean;
  readonly log_warning: boolean;
  readonly log_error: boolean;
  readonly log_verbose_level: number;
  readonly log_format: string;
}

/** Settings that a client changes; the log file is not one of them. */
export type LogSettingsUpdate = Partial<Omit<LogSettings, 'log_file'>>;

const logFormats: ReadonlySet<string> = new Set(['default', 'ISO8601', 'json']);

/** Body of a log settings update. Unknown members and nulls are passed over. */
export function parseLogSettings(body: Uint8Array): LogSettingsUpdate {
  const json = new JsonText(body, body.byteLength);
  const update: { -readonly [Name in keyof LogSettingsUpdate]: LogSettingsUpdate[Name] } = {};
  if (json.kind(json.root) !== 'object') return update;
  for (const [name, value] of membersOf(json, json.root)) {
    if (json.kind(value) === 'null') continue;
    switch (name) {
      case 'log_file':
        throw unsupported('log file location can not be updated through network protocol');
      case 'log_info':
      case 'log_warning':
      case 'log_error':
        update[name] ??= booleanAt(json, value);
        break;
      case 'log_verbose_level':
        update[name] ??= unsignedAt(json, value);
        break;
      case 'log_format': {
        const format = stringAt(json, value);
        if (!logFormats.has(format)) {
          throw unavailable(`invalid argument for --log_format, got: ${format}`);
        }
        update[name] ??= format;
        break;
      }
      default:
    }
  }
  return update;
}

/** JSON answer of the log endpoint, members in the reference server's order. */
export function logSettingsBody(settings: LogSettings): Uint8Array {
  const { log_file, log_info, log_warning, log_error, log_verbose_level, log_format } = settings;
  return Buffer.from(
    JSON.stringify({ log_file, log_info, log_warning, log_error, log_verbose_level, log_format }),
    'utf8',
  );
}

/** Trace setting → its values; an empty list takes the setting back to the wider scope's. */
export type TraceSettings = ReadonlyMap<string, readonly string[]>;

/** Body of a trace settings update: each value a string, a list of strings, or null. */
export function parseTraceSettings(body: Uint8Array): TraceSettings {
  const json = new JsonText(body, body.byteLength);
  const settings = new Map<string, readonly string[]>();
  if (json.kind(json.root) !== 'object') return settings;
  for (const [name, value] of membersOf(json, json.root)) {
    if (name === 'trace_file') {
      throw unsupported('trace file location can not be updated through network protocol');
    }
    if (!settings.has(name)) settings.set(name, traceValues(json, value));
  }
  return settings;
}

/** Settings in force: `trace_level` is a list, everything else one string. */
export function traceSettingsBody(settings: TraceSettings): Uint8Array {
  const document: Record<string, string | readonly string[]> = {};
  for (const [name, values] of settings) {
    document[name] = name === 'trace_level' ? values : (values[0] ?? '');
  }
  return Buffer.from(JSON.stringify(document), 'utf8');
}

function traceValues(json: JsonText, at: number): readonly string[] {
  switch (json.kind(at)) {
    case 'null':
      return [];
    case 'array': {
      const values: string[] = [];
      for (let item = json.firstItem(at); item >= 0; item = json.nextItem(item)) {
        values.push(stringAt(json, item));
      }
      return values;
    }
    default:
      return [stringAt(json, at)];
  }
}

/** Undefined for a body that is empty: "no options". */
function parseOptional(body: Uint8Array): JsonText | undefined {
  return body.byteLength === 0 ? undefined : new JsonText(body, body.byteLength);
}

function findMember(json: JsonText, at: number, name: string): number {
  return json.kind(at) === 'object' ? json.find(at, name) : -1;
}

function* membersOf(json: JsonText, at: number): Generator<readonly [string, number]> {
  for (let key = json.firstMember(at); key >= 0; ) {
    const value = json.memberValue(key);
    yield [json.string(key), value];
    key = json.nextMember(value);
  }
}

function booleanAt(json: JsonText, at: number): boolean {
  if (json.kind(at) !== 'boolean') throw wrongKind('boolean');
  return json.boolean(at);
}

function stringAt(json: JsonText, at: number): string {
  if (json.kind(at) !== 'string') throw wrongKind('string');
  return json.string(at);
}

function unsignedAt(json: JsonText, at: number): number {
  const value = json.kind(at) === 'number' ? json.number(at) : undefined;
  if (typeof value !== 'bigint' || value < 0n) throw wrongKind('unsigned-integer');
  return Number(value);
}

function wrongKind(kind: string): InferenceServerError {
  return invalidArg(`attempt to access JSON non-${kind} as ${kind}`);
}

function noMembers(): InferenceServerError {
  return invalidArg('attempt to get members for non-object');
}

function missingRegionField(field: string): InferenceServerError {
  return invalidArg(`Shared memory register request has no '${field}' field`);
}
