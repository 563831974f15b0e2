import { describe, expect, it } from 'vitest';
import { StatusLine } from '../../src/observability/status-line.js';

const erase = '\r\u001b[K';

function open(columns = 80) {
  const written: string[] = [];
  const write = (text: string | Uint8Array) => written.push(String(text)) > 0;
  return { written, line: new StatusLine({ columns, write }) };
}

describe('StatusLine', () => {
  it('stays below the lines that are written while it shows', () => {
    const { written, line } = open();
    line.write('one\n');
    line.show('50 %');
    line.write('two\n');
    line.show('');
    line.write('three\n');
    expect(written).toEqual(['one\n', `${erase}50 %`, `${erase}two\n50 %`, erase, 'three\n']);
  });

  it('writes nothing for a text that shows already', () => {
    const { written, line } = open();
    line.show('');
    line.show('same');
    line.show('same');
    expect(written).toEqual([`${erase}same`]);
  });

  it('cuts what would wrap', () => {
    const { written, line } = open(5);
    line.show('123456789');
    expect(written).toEqual([`${erase}1234`]);
  });

  it('takes a terminal without a width for one of 80 columns', () => {
    expect(open(0).line.columns).toBe(79);
  });
});
