import type { ResponseHeaderMemo } from './response-header-memo.js';

/** Where an output goes instead of into the body. Offsets and sizes are bytes. */
export interface SharedMemoryTarget {
  readonly region: string;
  readonly offset: number;
  readonly byteSize: number;
}

/** How one output leaves. Of the three, shared memory wins over binary and binary over JSON. */
export interface OutputForm {
  readonly isBinary: boolean;
  /** How many classes to report instead of the values; 0 reports the values. */
  readonly classificationCount: number;
  readonly sharedMemory: SharedMemoryTarget | undefined;
}

/** How a response has to look, as its request asked. */
export interface ResponseForm {
  /** The outputs that the request listed; empty where it listed none and gets all. */
  readonly outputs: ReadonlyMap<string, OutputForm>;
  /** The form of every output where none is listed. */
  readonly unlisted: OutputForm;
  /** Where all outputs are binary: the header of the last response, which may do for the next. */
  readonly headerMemo?: ResponseHeaderMemo;
}

/** A JSON array, all elements. */
export const jsonOutput: OutputForm = {
  isBinary: false,
  classificationCount: 0,
  sharedMemory: undefined,
};

/** Raw bytes behind the JSON, all elements. */
export const binaryOutput: OutputForm = { ...jsonOutput, isBinary: true };

const noOutputs: ReadonlyMap<string, OutputForm> = new Map();

/** All outputs as JSON arrays. */
export const jsonResponseForm: ResponseForm = { outputs: noOutputs, unlisted: jsonOutput };

/** All outputs in the binary section. */
export const binaryResponseForm: ResponseForm = { outputs: noOutputs, unlisted: binaryOutput };

/** True where every output leaves as a JSON array of its values. */
export function isJsonOnly(form: ResponseForm): boolean {
  return everyForm(form, (output) => !output.isBinary && isValues(output));
}

/** True where every output leaves as its raw bytes. */
export function isBinaryOnly(form: ResponseForm): boolean {
  return everyForm(form, (output) => output.isBinary && isValues(output));
}

function everyForm(form: ResponseForm, isTrue: (output: OutputForm) => boolean): boolean {
  if (form.outputs.size === 0) return isTrue(form.unlisted);
  for (const output of form.outputs.values()) {
    if (!isTrue(output)) return false;
  }
  return true;
}

function isValues(output: OutputForm): boolean {
  return output.classificationCount === 0 && output.sharedMemory === undefined;
}
