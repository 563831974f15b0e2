import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { formatOptionsMarkdown } from '../../src/options-help.js';

const deviationsFile = fileURLToPath(
  new URL('../conformance/golden/deviations.json', import.meta.url),
);
export const readmeFile = fileURLToPath(new URL('../../README.md', import.meta.url));

/** Parts of the README that are made from what the code and the tests use, by their mark. */
export const readmeSections: Readonly<Record<string, () => string>> = {
  options: formatOptionsMarkdown,
  deviations: formatDeviations,
};

/** The README with what stands between the marks of each section made anew. */
export function renewReadme(readme: string): string {
  return Object.entries(readmeSections).reduce((text, [name, format]) => {
    const [begin, end] = [`<!-- ${name} -->`, `<!-- /${name} -->`];
    const from = text.indexOf(begin);
    const to = text.indexOf(end);
    if (from < 0 || to < from) throw new Error(`README.md has no section '${name}'`);
    return `${text.slice(0, from + begin.length)}\n\n${format()}\n\n${text.slice(to)}`;
  }, readme);
}

/** Tables are aligned by the formatter; their content is what must agree. */
export function ignoreLayout(markdown: string): string {
  return markdown
    .replaceAll(/ +/g, ' ')
    .replaceAll(/-{2,}/g, '--')
    .replaceAll(/\n{2,}/g, '\n\n');
}

/** One line for each deliberate difference that the replay of the recordings lets pass. */
function formatDeviations(): string {
  const entries: Record<string, { readonly reason?: string }> = JSON.parse(
    readFileSync(deviationsFile, 'utf8'),
  );
  const reasons = Object.entries(entries)
    .filter(([name]) => !name.startsWith('//'))
    .map(([name, { reason }]) => ({ name, reason: reason ?? '' }))
    .filter(({ reason }) => !reason.startsWith('as '));
  return reasons.map(({ name, reason }) => `- ${toTitle(name)}: ${reason}`).join('\n');
}

/** Keys are names or patterns of recordings; the pattern is shown as code. */
function toTitle(name: string): string {
  return name.includes(' ') && !name.includes('|') ? name : `\`${name.replaceAll('|', '/')}\``;
}
