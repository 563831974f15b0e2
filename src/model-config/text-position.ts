/** Where in a text-format document a parser gave up. Line and column count from 1. */
export interface TextPosition {
  readonly line: number;
  readonly column: number;
  /** Names of the fields around it, outermost first: `input.data_type`; '' at the top. */
  readonly fieldPath: string;
}

interface Token {
  readonly text: string;
  readonly start: number;
  readonly end: number;
}

/** Characters that no valid document holds outside a string: the parser that meets one says so. */
const neverValid = ['\u0001', '\u0002', '\u0003', '\u0004', '\u0005', '\u0006', '\u0007', '\u0008'];

/** Comments, strings, words and numbers, and any other single character; the parser knows better. */
const tokenPattern = /#[^\n]*|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_0-9.+]+|[^\s]/g;

/**
 * Finds the token at which `parse` fails on `text`, for a parser that reads from left to right but
 * does not tell positions. A prefix of the tokens followed by a character that is never valid fails
 * at that character when the prefix is sound, and with the original complaint when it holds the
 * offending token; the shortest prefix of the second kind is found by bisection.
 */
export function locateParseError(text: string, parse: (text: string) => unknown): TextPosition {
  const tokens = tokenize(text);
  const unused = neverValid.find((character) => !text.includes(character)) ?? '\u0001';
  // On a line of its own, so that no comment swallows it.
  const sentinel = `\n${unused}`;
  const sentinelMessage = failureOf(parse, sentinel);
  let sound = 0;
  let failing = tokens.length + 1;
  while (failing - sound > 1) {
    const count = (sound + failing) >> 1;
    const prefix = text.slice(0, tokens[count - 1]?.end ?? 0) + sentinel;
    if (failureOf(parse, prefix) === sentinelMessage) sound = count;
    else failing = count;
  }
  // Where every prefix is sound the document ended too early.
  const offset = tokens[failing - 1]?.start ?? text.trimEnd().length;
  const before = text.slice(0, offset);
  const line = before.split('\n').length;
  const column = offset - before.lastIndexOf('\n');
  return { line, column, fieldPath: fieldPathAt(tokens, failing - 1) };
}

function failureOf(parse: (text: string) => unknown, text: string): string | undefined {
  try {
    parse(text);
    return undefined;
  } catch (error) {
    // Only the text of the complaint matters here; the caller keeps the original error.
    return error instanceof Error ? error.message : String(error);
  }
}

function tokenize(text: string): Token[] {
  const tokens: Token[] = [];
  for (const match of text.matchAll(tokenPattern)) {
    const [token] = match;
    if (token.startsWith('#')) continue;
    tokens.push({
      text: token,
      start: match.index,
      end: match.index + token.length,
    });
  }
  return tokens;
}

interface OpenField {
  /** '' where a field's name comes next. */
  readonly name: string;
  readonly isInList: boolean;
}

const noField: OpenField = { name: '', isInList: false };

/** The fields that are open before token `index`, with the one whose value it is part of. */
function fieldPathAt(tokens: readonly Token[], index: number): string {
  const open: OpenField[] = [];
  let field = noField;
  for (const { text } of tokens.slice(0, index)) {
    if (text === '{' || text === '<') {
      open.push(field);
      field = noField;
    } else if (text === '}' || text === '>') {
      field = open.pop() ?? noField;
      if (!field.isInList) field = noField;
    } else if (text === '[') {
      field = { ...field, isInList: true };
    } else if (text === ']') {
      field = noField;
    } else if (/^\w/.test(text) && field.name === '') {
      field = { name: text, isInList: false };
    } else if (/^[\w"'.]/.test(text) && !field.isInList) {
      field = noField;
    }
  }
  return [...open, field]
    .map(({ name }) => name)
    .filter((name) => name !== '')
    .join('.');
}
