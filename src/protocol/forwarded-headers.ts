import { setFlagsFromString } from 'node:v8';
import { invalidArg } from '../errors.js';

/** A request's headers; names in lower case. */
export interface HeaderSource {
  visitHeaders(visit: (name: string, value: string) => void): void;
}

/** Names that mean something to the server itself as a request parameter. */
const reservedNames: ReadonlySet<string> = new Set([
  'sequence_id',
  'sequence_start',
  'sequence_end',
  'priority',
  'timeout',
  'headers',
  'binary_data_output',
]);

/**
 * Chooses the headers that a request hands to the model as parameters. The pattern is searched in
 * the header's name, in lower case, by an engine that takes linear time: a pattern cannot be made
 * to backtrack by a client's header. Such an engine has no look-around and no back references,
 * like the one of the reference server.
 */
export class ForwardedHeaders {
  readonly #pattern: RegExp | undefined;

  /** Undefined forwards none. Throws INVALID_ARG for a pattern that the engine does not have. */
  constructor(pattern: RegExp | undefined) {
    this.#pattern = pattern === undefined ? undefined : compile(pattern);
  }

  /**
   * Headers to forward, by name in lower case; undefined where there are none. Throws INVALID_ARG
   * for one whose name the server reserves.
   */
  select(headers: HeaderSource): ReadonlyMap<string, string> | undefined {
    const pattern = this.#pattern;
    if (pattern === undefined) return undefined;
    let selected: Map<string, string> | undefined;
    let reserved: string | undefined;
    headers.visitHeaders((name, value) => {
      if (!pattern.test(name)) return;
      if (reservedNames.has(name) || name.startsWith('triton_')) reserved ??= name;
      selected ??= new Map();
      selected.set(name, value);
    });
    if (reserved !== undefined) {
      throw invalidArg(
        `Header '${reserved}' is reserved for Triton usage and cannot be forwarded.`,
      );
    }
    return selected;
  }
}

function compile(pattern: RegExp): RegExp {
  // The `l` flag exists only after this; it changes nothing for other expressions.
  setFlagsFromString('--enable-experimental-regexp-engine');
  // The engine knows no `i`. Header names are compared in lower case, so the pattern is lowered.
  const source = pattern.ignoreCase ? lowerLetters(pattern.source) : pattern.source;
  try {
    return new RegExp(source, 'l');
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw invalidArg(`cannot use ${pattern} as a pattern of headers to forward: ${why}`, cause);
  }
}

/** Lower case outside of escapes: `\S` stays what it is. */
function lowerLetters(pattern: string): string {
  return pattern.replaceAll(/\\.|[A-Z]/gs, (piece) =>
    piece.length === 1 ? piece.toLowerCase() : piece,
  );
}
