import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLogOutput } from '../../src/observability/log-output.js';

describe('openLogOutput', () => {
  let directory = '';
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'nereid-log-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it('appends whole lines to a file until it is closed', () => {
    const file = join(directory, 'server.log');
    writeFileSync(file, 'old\n');
    const output = openLogOutput(file);
    output.write('new\n');
    expect(readFileSync(file, 'utf8')).toBe('old\nnew\n');
    output.close();
    output.close();
    output.write('late\n');
    expect(readFileSync(file, 'utf8')).toBe('old\nnew\n');
  });

  it('throws where the file cannot be opened', () => {
    expect(() => openLogOutput(join(directory, 'no', 'server.log'))).toThrow('ENOENT');
  });
});
