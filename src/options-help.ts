import type { Option, OptionGroup } from './options-row.js';
import { environmentName, optionGroups } from './options-table.js';

const wrapColumns = 72;

/** The text of `--help`. */
export function formatHelp(programName: string): string {
  const blocks = optionGroups.map((group) => formatGroup(group, new Map()));
  return [
    `Usage: ${programName} [options]\n  --help\n\tPrint usage\n  --version\n\tPrint the version`,
    [
      'Commands, each with a --help of its own:',
      `  ${programName} bench -m MODEL [options]\n\tLoad on a model of any server of the v2 protocol.`,
      `  ${programName} tune MODEL [options]\n\tThe fastest configuration of a model on this machine.`,
    ].join('\n'),
    ...blocks,
    'Every option can be given as an environment variable: --http-port is NEREID_HTTP_PORT.\nOptions that may be given several times are separated by ; there. The command line wins.',
    '',
  ].join('\n\n');
}

/** A titled block of options; `letters` holds the short forms, by name. */
export function formatGroup(
  { title, options }: OptionGroup,
  letters: ReadonlyMap<string, string>,
): string {
  const rows = Object.values(options).map((option) => formatOption(option, letters));
  return [`${title}:`, ...rows].join('\n');
}

function formatOption(option: Option<unknown>, letters: ReadonlyMap<string, string>): string {
  const letter = letters.get(option.name);
  const short = letter === undefined ? '' : `-${letter}, `;
  const form = option.form === '' ? '' : ` ${option.form}`;
  const text =
    option.defaultText === '' ? option.help : `${option.help} Default is ${option.defaultText}.`;
  return [`  ${short}--${option.name}${form}`, ...wrap(text).map((line) => `\t${line}`)].join('\n');
}

/** The same table for the README, as Markdown. */
export function formatOptionsMarkdown(): string {
  return optionGroups
    .map(({ title, options }) =>
      [
        `### ${title}`,
        '',
        '| option | variable | default | |',
        '| --- | --- | --- | --- |',
        ...Object.values(options).map(formatMarkdownRow),
      ].join('\n'),
    )
    .join('\n\n');
}

function formatMarkdownRow(option: Option<unknown>): string {
  const defaultText = option.defaultText === '' ? '' : `\`${option.defaultText}\``;
  const help = option.help.replaceAll('|', '\\|').replaceAll('<', '&lt;');
  return `| \`--${option.name}\` | \`${environmentName(option.name)}\` | ${defaultText} | ${help} |`;
}

function wrap(text: string): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(' ')) {
    if (line !== '' && line.length + 1 + word.length > wrapColumns) {
      lines.push(line);
      line = word;
    } else {
      line = line === '' ? word : `${line} ${word}`;
    }
  }
  lines.push(line);
  return lines;
}
