import { describe, expect, it } from 'vitest';
import { OutputLines } from '../../../src/backends/python/output-lines.js';

function linesOf(nowMs: () => number = () => 0) {
  const lines: string[] = [];
  return { lines, output: new OutputLines((line) => lines.push(line), nowMs) };
}

describe('OutputLines', () => {
  it('joins what came in pieces, also within a character, and leaves out empty lines', () => {
    const { lines, output } = linesOf();
    const bytes = Buffer.from('one é\r\n\n  two\nrest');
    for (const byte of bytes) output.push(Buffer.of(byte));
    expect(lines).toEqual(['one é', '  two']);
    output.end();
    expect(lines).toEqual(['one é', '  two', 'rest']);
  });

  it('cuts a line that does not end', () => {
    const { lines, output } = linesOf();
    output.push(Buffer.from('x'.repeat(4097)));
    expect(lines.map((line) => line.length)).toEqual([4096]);
    output.end();
    expect(lines.map((line) => line.length)).toEqual([4096, 1]);
  });

  it('leaves out lines beyond 200 a second, and counts them', () => {
    let nowMs = 0;
    const { lines, output } = linesOf(() => nowMs);
    output.push(Buffer.from('a\n'.repeat(203)));
    expect(lines).toHaveLength(200);
    nowMs = 1000;
    output.push(Buffer.from('b\n'));
    expect(lines.slice(200)).toEqual(['(3 lines left out: more than 200 a second)', 'b']);
  });

  it('remembers the last 4096 characters', () => {
    const { output } = linesOf();
    output.push(Buffer.from(`first\n${'y'.repeat(4000)}`));
    output.push(Buffer.from(`${'z'.repeat(100)}\n`));
    expect(output.tail).toBe(`${'y'.repeat(3995)}${'z'.repeat(100)}`);
  });
});
