import { type InferenceServerError, invalidArg } from '../errors.js';
import type { Datatype } from '../inference/datatype.js';
import { comma } from './json-syntax.js';
import { NumberReader, wrongType } from './number-reader.js';

/**
 * Reads the element at an offset, and those behind it as long as nothing but commas and single
 * spaces comes between; returns the offset behind the last of them. A call for each element would
 * cost as much as reading it.
 */
export type RunDecoder = (at: number) => number;

/** How many elements of a tensor have been read. */
export class ElementCounter {
  written = 0;
  readonly #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  /** The place of the next element. Throws where there is one too many. */
  next(): number {
    if (this.written === this.#count) throw countMismatch();
    return this.written++;
  }
}

/** INVALID_ARG in the reference server's words: more or fewer elements than the shape has. */
export function countMismatch(): InferenceServerError {
  return invalidArg("Unable to parse 'data': Shape does not match true shape of 'data' field");
}

/** Reads elements of `text` into `raw`, which begins its buffer. */
export function runDecoder(
  datatype: Exclude<Datatype, 'BYTES'>,
  raw: Uint8Array,
  text: Uint8Array,
  elements: ElementCounter,
): RunDecoder {
  const reader = new NumberReader(text);
  const { buffer } = raw;
  switch (datatype) {
    case 'BOOL':
      return (at) => {
        const isTrue = startsWith(text, at, 'true');
        if (!isTrue && !startsWith(text, at, 'false')) throw wrongType('non-boolean as boolean');
        raw[elements.next()] = isTrue ? 1 : 0;
        return at + (isTrue ? 4 : 5);
      };
    case 'FP32': {
      const floats = new Float32Array(buffer);
      return (start) => {
        let at = start;
        do {
          floats[elements.next()] = reader.float32(at);
          at = nextOfRun(text, reader.next);
        } while (at > 0);
        return reader.next;
      };
    }
    case 'FP64': {
      const doubles = new Float64Array(buffer);
      return (start) => {
        let at = start;
        do {
          doubles[elements.next()] = reader.double(at);
          at = nextOfRun(text, reader.next);
        } while (at > 0);
        return reader.next;
      };
    }
    case 'INT64':
    case 'UINT64': {
      const words = new Uint32Array(buffer);
      const isSigned = datatype === 'INT64';
      return (start) => {
        let at = start;
        do {
          reader.integer64(at, isSigned, words, elements.next() * 2);
          at = nextOfRun(text, reader.next);
        } while (at > 0);
        return reader.next;
      };
    }
    case 'INT8':
    case 'INT16':
    case 'INT32':
    case 'UINT8':
    case 'UINT16':
    case 'UINT32':
      return integerRun(datatype, raw, text, elements, reader);
    case 'FP16':
    case 'BF16':
      throw invalidArg(
        `receiving ${datatype} data via JSON is not supported. Please use the binary data format`,
      );
  }
}

type SmallInteger = 'INT8' | 'INT16' | 'INT32' | 'UINT8' | 'UINT16' | 'UINT32';

function integerRun(
  datatype: SmallInteger,
  raw: Uint8Array,
  text: Uint8Array,
  elements: ElementCounter,
  reader: NumberReader,
): RunDecoder {
  const { integers, min, max } = integerTarget(datatype, raw.buffer);
  const isSigned = min < 0;
  return (start) => {
    let at = start;
    do {
      const place = elements.next();
      const value = reader.integer(at, isSigned);
      // The reference server lets it wrap: 300 becomes 44 as INT8. Here that is a mistake to tell.
      if (value < min || value > max) {
        throw invalidArg(`Unable to parse 'data': ${value} is out of the range of ${datatype}`);
      }
      integers[place] = value;
      at = nextOfRun(text, reader.next);
    } while (at > 0);
    return reader.next;
  };
}

interface IntegerTarget {
  readonly integers: Int8Array | Int16Array | Int32Array | Uint8Array | Uint16Array | Uint32Array;
  readonly min: number;
  readonly max: number;
}

function integerTarget(datatype: SmallInteger, buffer: ArrayBufferLike): IntegerTarget {
  switch (datatype) {
    case 'INT8':
      return { integers: new Int8Array(buffer), min: -0x80, max: 0x7f };
    case 'INT16':
      return { integers: new Int16Array(buffer), min: -0x8000, max: 0x7fff };
    case 'INT32':
      return { integers: new Int32Array(buffer), min: -0x80000000, max: 0x7fffffff };
    case 'UINT8':
      return { integers: new Uint8Array(buffer), min: 0, max: 0xff };
    case 'UINT16':
      return { integers: new Uint16Array(buffer), min: 0, max: 0xffff };
    case 'UINT32':
      return { integers: new Uint32Array(buffer), min: 0, max: 0xffffffff };
  }
}

/** Offset of the number that follows the one that ends at `at` in the same run; 0 for none. */
function nextOfRun(text: Uint8Array, at: number): number {
  if (text[at] !== comma) return 0;
  const next = text[at + 1] === 0x20 ? at + 2 : at + 1;
  const byte = text[next] ?? 0;
  return (byte >= 0x30 && byte <= 0x39) || byte === 0x2d ? next : 0;
}

function startsWith(text: Uint8Array, at: number, word: string): boolean {
  for (let index = 0; index < word.length; index++) {
    if (text[at + index] !== word.charCodeAt(index)) return false;
  }
  return true;
}
