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

/** No valid document holds it outside a string, so the parser that meets it says so. */
const sentinel = '\n\u0001';

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

/** The fields that are open before token `index`, with the one whose value it is. */
function fieldPathAt(tokens: readonly Token[], index: number): string {
  const open: string[] = [];
  let field = '';
  for (let at = 0; at < index && at < tokens.length; at++) {
    const text = tokens[at]?.text ?? '';
    const next = tokens[at + 1]?.text ?? '';
    if (text === '{' || text === '<') {
      open.push(field);
    } else if (text === '}' || text === '>') {
      field = open.pop() ?? '';
    } else if (/^[A-Za-z_]/.test(text) && [':', '{', '<', '['].includes(next)) {
      field = text;
    }
  }
  const isValue = index < tokens.length && !isFieldName(tokens, index);
  return [...open, ...(isValue ? [field] : [])].filter((name) => name !== '').join('.');
}

function isFieldName(tokens: readonly Token[], index: number): boolean {
  return (
    /^[A-Za-z_]/.test(tokens[index]?.text ?? '') &&
    !['[', ':', ','].includes(tokens[index - 1]?.text ?? '')
  );
}
