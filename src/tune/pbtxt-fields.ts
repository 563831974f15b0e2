import { invalidArg } from '../errors.js';

/*
 * Places of fields in a text of protobuf's text format, for edits that leave everything else as its
 * author wrote it. Only what edits need of the format's grammar; whether the text is a configuration
 * is checked by its parser.
 */

/** A piece of a text: from `start` up to and without `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export interface FieldPlace extends Span {
  readonly name: string;
  readonly value: Span;
  /** What stands inside the brackets of each message of the value; none for scalars. */
  readonly messages: readonly Span[];
}

/** Fields of the message whose inside is `span`, in the order of the text. INVALID_ARG if it has none. */
export function findFields(text: string, span: Span): readonly FieldPlace[] {
  const fields: FieldPlace[] = [];
  let at = skipSeparators(text, span.start, span.end);
  while (at < span.end) {
    const field = readField(text, at);
    fields.push(field);
    at = skipSeparators(text, field.end, span.end);
  }
  return fields;
}

/** The whole text, as the inside of a message. */
export function wholeText(text: string): Span {
  return { start: 0, end: text.length };
}

const nameForm = /[A-Za-z_][\w.]*/y;
const blankForm = /(?:\s|#[^\n]*)*/y;
const separatorForm = /(?:[\s,;]|#[^\n]*)*/y;
const stringForm = /"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/y;
const scalarForm = /[^\s,;\]}>#"'[{<]+/y;

function readField(text: string, start: number): FieldPlace {
  const nameEnd = matchEnd(nameForm, text, start);
  if (nameEnd === undefined) throw unreadable(text, start);
  let at = skipBlanks(text, nameEnd);
  if (text[at] === ':') at = skipBlanks(text, at + 1);
  const messages: Span[] = [];
  const end = readValue(text, at, messages);
  return { name: text.slice(start, nameEnd), start, end, value: { start: at, end }, messages };
}

/** Where the value at `start` ends; the messages in it are added to `messages`. */
function readValue(text: string, start: number, messages: Span[]): number {
  const first = text[start];
  if (first === '{' || first === '<') {
    const close = readMessage(text, start + 1, first === '{' ? '}' : '>');
    messages.push({ start: start + 1, end: close });
    return close + 1;
  }
  if (first === '[') {
    let at = skipSeparators(text, start + 1, text.length);
    while (text[at] !== ']') {
      if (at >= text.length) throw unreadable(text, start);
      at = skipSeparators(text, readValue(text, at, messages), text.length);
    }
    return at + 1;
  }
  return readScalar(text, start);
}

/** Where the closing bracket of the message that begins at `start` stands. */
function readMessage(text: string, start: number, close: string): number {
  let at = skipSeparators(text, start, text.length);
  while (text[at] !== close) {
    if (at >= text.length) throw unreadable(text, start);
    at = skipSeparators(text, readField(text, at).end, text.length);
  }
  return at;
}

/** A number, a word, or strings one behind the other, which are one value. */
function readScalar(text: string, start: number): number {
  let end = matchEnd(stringForm, text, start);
  if (end === undefined) {
    const wordEnd = matchEnd(scalarForm, text, start);
    if (wordEnd === undefined) throw unreadable(text, start);
    return wordEnd;
  }
  for (;;) {
    const next = matchEnd(stringForm, text, skipBlanks(text, end));
    if (next === undefined) return end;
    end = next;
  }
}

function skipBlanks(text: string, start: number): number {
  return matchEnd(blankForm, text, start) ?? start;
}

function skipSeparators(text: string, start: number, end: number): number {
  return Math.min(end, matchEnd(separatorForm, text, start) ?? start);
}

/** `form` is sticky: its state is set here and used at once. */
function matchEnd(form: RegExp, text: string, start: number): number | undefined {
  form.lastIndex = start;
  return form.test(text) ? form.lastIndex : undefined;
}

function unreadable(text: string, at: number): Error {
  const line = text.slice(0, at).split('\n').length;
  return invalidArg(`the configuration is not understood at line ${line}`);
}
