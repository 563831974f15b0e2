import { isDeepStrictEqual } from 'node:util';
import { internal } from '../errors.js';
import { parseModelConfigText } from '../model-config/read-model-config.js';
import {
  applyCandidate,
  type Candidate,
  changedSettings,
  type Setting,
  threadsKey,
} from './candidate.js';
import { type FieldPlace, findFields, type Span, wholeText } from './pbtxt-fields.js';

/** The lines of `config.pbtxt` that make the defaults the candidate. */
export function formatLines(candidate: Candidate, defaults: Candidate): string {
  return mergeText('', candidate, defaults);
}

/**
 * The text of a `config.pbtxt` with the settings of the candidate that differ from the defaults;
 * comments, order and all other fields stay as they are. The result is parsed and compared with what
 * it should say: where that fails, INTERNAL, and the lines must be merged by hand.
 */
export function mergeConfigText(text: string, candidate: Candidate, defaults: Candidate): string {
  const merged = mergeText(text, candidate, defaults);
  const before = parseModelConfigText(text, 'config.pbtxt');
  const expected = applyCandidate(before, candidate, defaults);
  const written = parseModelConfigText(merged, 'config.pbtxt');
  if (isDeepStrictEqual(written, expected)) return merged;
  throw internal('config.pbtxt has a form in which the lines must be merged by hand');
}

function mergeText(text: string, candidate: Candidate, defaults: Candidate): string {
  let merged = text;
  for (const setting of changedSettings(candidate, defaults)) {
    merged = writers[setting](merged, candidate[setting]);
  }
  return merged;
}

const writers: Readonly<Record<Setting, (text: string, value: number) => string>> = {
  instances: (text, value) => {
    const group = findField(text, wholeText(text), 'instance_group')?.messages[0];
    if (group === undefined) {
      return appendLine(text, `instance_group [ { kind: KIND_CPU count: ${value} } ]`);
    }
    return setField(text, group, 'count', String(value));
  },
  threads: (text, value) => {
    const entry = parameterEntries(text).find(
      (span) => scalarText(text, span, 'key') === threadsKey,
    );
    const message = entry && findField(text, entry, 'value')?.messages[0];
    if (message !== undefined) return setField(text, message, 'string_value', `"${value}"`);
    return appendLine(
      text,
      `parameters { key: "${threadsKey}" value { string_value: "${value}" } }`,
    );
  },
  maxBatchSize: (text, value) => {
    const field = findField(text, wholeText(text), 'max_batch_size');
    if (field === undefined) return appendLine(text, `max_batch_size: ${value}`);
    return replace(text, field.value, String(value));
  },
  queueDelayUs: (text, value) => setBatching(text, 'max_queue_delay_microseconds', String(value)),
  preferredBatchSize: (text, value) =>
    setBatching(text, 'preferred_batch_size', value === 0 ? '[ ]' : `[ ${value} ]`),
};

function setBatching(text: string, name: string, value: string): string {
  const batching = findField(text, wholeText(text), 'dynamic_batching')?.messages[0];
  if (batching === undefined) return appendLine(text, `dynamic_batching { ${name}: ${value} }`);
  return setField(text, batching, name, value);
}

/** Replaces every occurrence of a field in a message by one, at its first place or at the end. */
function setField(text: string, message: Span, name: string, value: string): string {
  const [first, ...more] = findFields(text, message).filter((field) => field.name === name);
  if (first === undefined) {
    const inside = text.slice(message.start, message.end);
    const space = /\s$/.test(inside) ? '' : ' ';
    return replace(text, { start: message.end, end: message.end }, `${space}${name}: ${value} `);
  }
  const withoutMore = more.reduceRight((rest, field) => replace(rest, field, ''), text);
  return replace(withoutMore, first.value, value);
}

function parameterEntries(text: string): readonly Span[] {
  return findFields(text, wholeText(text))
    .filter(({ name }) => name === 'parameters')
    .flatMap(({ messages }) => messages);
}

/** A string field's content, where it has no escapes. */
function scalarText(text: string, message: Span, name: string): string | undefined {
  const field = findField(text, message, name);
  return field && text.slice(field.value.start + 1, field.value.end - 1);
}

function findField(text: string, message: Span, name: string): FieldPlace | undefined {
  return findFields(text, message).find((field) => field.name === name);
}

function appendLine(text: string, line: string): string {
  const isOpen = text !== '' && !text.endsWith('\n');
  return `${text}${isOpen ? '\n' : ''}${line}\n`;
}

function replace(text: string, { start, end }: Span, by: string): string {
  return `${text.slice(0, start)}${by}${text.slice(end)}`;
}
