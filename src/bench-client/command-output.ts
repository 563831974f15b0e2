import { InferenceServerError } from '../errors.js';

/** Where a command prints: results, and what goes on meanwhile. */
export interface CommandOutput {
  print(text: string): void;
  note(text: string): void;
}

/** Runs a command. An expected failure is noted, and its exit code is 1. */
export async function runNoting(
  { note }: CommandOutput,
  run: () => Promise<number>,
): Promise<number> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof InferenceServerError)) throw error;
    note(`error: ${error.message}\n`);
    return 1;
  }
}
