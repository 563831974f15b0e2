/*
 * Strings of the wire. JSON text here is bytes; names, ids and parameters are JavaScript strings.
 * Bytes that are not UTF-8 must come back as they went in (the reference server never looks at
 * them), so each of them is kept as a lone surrogate U+DC80..U+DCFF, as Python's "surrogateescape"
 * does, and becomes the byte again on the way out.
 */

const strictDecoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const loneEscape = /(?<![\ud800-\udbff])[\udc80-\udcff]/;

/** Bytes as a string; the inverse of {@link encodeText}. */
export function decodeText(bytes: Uint8Array): string {
  try {
    return strictDecoder.decode(bytes);
  } catch {
    // Not UTF-8: decode the runs between the offending bytes.
    return decodeEscaping(bytes);
  }
}

/** A string as UTF-8, lone surrogates U+DC80..U+DCFF as the byte they stand for. */
export function encodeText(text: string): Uint8Array {
  if (!loneEscape.test(text)) return Buffer.from(text, 'utf8');
  const parts: Buffer[] = [];
  let runStart = 0;
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code >= 0xd800 && code <= 0xdbff && index + 1 < text.length) {
      const next = text.charCodeAt(index + 1);
      if (next >= 0xdc00 && next <= 0xdfff) index++;
      continue;
    }
    if (code < 0xdc80 || code > 0xdcff) continue;
    parts.push(Buffer.from(text.slice(runStart, index), 'utf8'), Buffer.of(code - 0xdc00));
    runStart = index + 1;
  }
  parts.push(Buffer.from(text.slice(runStart), 'utf8'));
  return Buffer.concat(parts);
}

function decodeEscaping(bytes: Uint8Array): string {
  let text = '';
  let runStart = 0;
  let index = 0;
  while (index < bytes.length) {
    const length = sequenceLength(bytes, index);
    if (length > 0) {
      index += length;
      continue;
    }
    text += strictDecoder.decode(bytes.subarray(runStart, index));
    text += String.fromCharCode(0xdc00 + (bytes[index] ?? 0));
    index++;
    runStart = index;
  }
  return text + strictDecoder.decode(bytes.subarray(runStart));
}

/** Bytes of the well-formed UTF-8 sequence at `at` (Unicode, table 3-7); 0 where there is none. */
function sequenceLength(bytes: Uint8Array, at: number): number {
  const first = bytes[at] ?? 0;
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  const length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (at + length > bytes.length) return 0;
  const second = bytes[at + 1] ?? 0;
  const low = first === 0xe0 ? 0xa0 : first === 0xf0 ? 0x90 : 0x80;
  const high = first === 0xed ? 0x9f : first === 0xf4 ? 0x8f : 0xbf;
  if (second < low || second > high) return 0;
  for (let index = 2; index < length; index++) {
    if (((bytes[at + index] ?? 0) & 0xc0) !== 0x80) return 0;
  }
  return length;
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what JSON must escape
const mustEscape = /["\\\u0000-\u001f]/;
const shortEscapes: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

/**
 * `text` + `value` as a JSON string. Only quotes, backslashes and control characters are escaped:
 * `JSON.stringify` would also escape the lone surrogates that stand for bytes.
 */
export function appendJsonString(text: string, value: string): string {
  if (!mustEscape.test(value)) return `${text}"${value}"`;
  let escaped = '';
  for (const character of value) {
    const code = character.charCodeAt(0);
    escaped +=
      shortEscapes[character] ??
      (code < 0x20 ? `\\u${code.toString(16).toUpperCase().padStart(4, '0')}` : character);
  }
  return `${text}"${escaped}"`;
}
