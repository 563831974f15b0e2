import { describe, expect, it } from 'vitest';
import { type LogSettings, TextLogger } from '../../src/observability/text-logger.js';

const wallMs = Date.UTC(2026, 10, 30, 20, 14, 4, 467);

function createLogger(overrides: Partial<LogSettings> = {}) {
  const lines: string[] = [];
  const settings: LogSettings = {
    verboseLevel: 0,
    isInfoLogged: true,
    isWarningLogged: true,
    isErrorLogged: true,
    format: 'default',
    ...overrides,
  };
  const logger = new TextLogger(
    settings,
    (line) => lines.push(line),
    () => wallMs,
  );
  return { lines, settings, logger };
}

describe('TextLogger', () => {
  it('writes lines in the form of the reference server', () => {
    const { lines, logger } = createLogger();
    logger.info('loading: add_sub:1');
    logger.warning('careful');
    logger.error('broken');
    expect(lines).toEqual([
      `I1130 20:14:04.467000 ${process.pid} server] "loading: add_sub:1"\n`,
      `W1130 20:14:04.467000 ${process.pid} server] "careful"\n`,
      `E1130 20:14:04.467000 ${process.pid} server] "broken"\n`,
    ]);
  });

  it('writes ISO8601 lines', () => {
    const { lines, logger } = createLogger({ format: 'ISO8601' });
    logger.warning('x');
    expect(lines).toEqual([`2026-11-30T20:14:04Z W ${process.pid} server] "x"\n`]);
  });

  it('writes one JSON object a line', () => {
    const { lines, logger } = createLogger({ format: 'json', verboseLevel: 1 });
    logger.from('model add_sub').verbose(1, 'a\n"b"');
    expect(lines).toHaveLength(1);
    expect(lines[0]?.endsWith('}\n')).toBe(true);
    expect(JSON.parse(lines[0] ?? '')).toEqual({
      time: '2026-11-30T20:14:04.467Z',
      level: 'verbose',
      source: 'model add_sub',
      message: 'a\n"b"',
    });
  });

  it.each(['default', 'ISO8601', 'json'] as const)(
    'never lets a text begin a line of its own (%s)',
    (format) => {
      const { lines, logger } = createLogger({ format });
      logger.error('a\nE1130 forged\r\u2028b\u001b[31m"\u0085');
      expect(lines).toHaveLength(1);
      const text = lines[0] ?? '';
      expect(text.indexOf('\n')).toBe(text.length - 1);
      for (const character of ['\r', '\u001b']) expect(text).not.toContain(character);
    },
  );

  it('escapes line separators and direction marks', () => {
    const { lines, logger } = createLogger();
    logger.info('a\u2028b\u202ec');
    expect(lines[0]).toContain('"a\\u2028b\\u202ec"');
  });

  it('follows its settings while it runs, in all loggers of one log', () => {
    const { lines, settings, logger } = createLogger();
    const other = logger.from('other');
    other.verbose(1, 'hidden');
    settings.verboseLevel = 2;
    expect([1, 2, 3].map((level) => other.isVerbose(level))).toEqual([true, true, false]);
    other.verbose(2, 'shown');
    settings.isInfoLogged = false;
    settings.isWarningLogged = false;
    settings.isErrorLogged = false;
    other.info('hidden');
    other.warning('hidden');
    other.error('hidden');
    other.table('hidden', ['x']);
    expect(lines).toEqual([`I1130 20:14:04.467000 ${process.pid} other] "shown"\n`]);
  });

  it('writes a table below its heading', () => {
    const { lines, logger } = createLogger();
    logger.table('models', ['| a |', '| b |']);
    expect(lines).toEqual([
      `I1130 20:14:04.467000 ${process.pid} server] "models"\n| a |\n| b |\n\n`,
    ]);
  });
});
