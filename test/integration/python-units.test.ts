import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { testInterpreter } from '../backends/python/python-models.js';

it('passes the unit tests of the Python side', () => {
  const folder = fileURLToPath(new URL('../python', import.meta.url));
  const command = ['-m', 'unittest', 'discover', folder];
  const output = execFileSync('/bin/sh', ['-c', '"$0" "$@" 2>&1', testInterpreter(), ...command]);
  expect(output.toString()).toMatch(/Ran [1-9]\d* tests[\s\S]*OK\s*$/);
});
