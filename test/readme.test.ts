import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ignoreLayout, readmeFile, renewReadme } from './support/readme-sections.js';

// UPDATE_README=1 npx vitest run --config test/vitest.config.ts test/readme.test.ts
if (process.env['UPDATE_README'] === '1') {
  writeFileSync(readmeFile, renewReadme(readFileSync(readmeFile, 'utf8')));
}

describe('README.md', () => {
  it('shows the option table and the deliberate differences as the code has them', () => {
    const readme = readFileSync(readmeFile, 'utf8');
    expect(ignoreLayout(readme)).toBe(ignoreLayout(renewReadme(readme)));
  });

  it('shows the files of the example of a function as they are', () => {
    const readme = readFileSync(readmeFile, 'utf8');
    for (const file of ['1/model.mjs', 'config.pbtxt']) {
      const example = new URL(`../examples/function/models/AddSub/${file}`, import.meta.url);
      expect(readme).toContain(`\n${readFileSync(example, 'utf8')}\`\`\``);
    }
  });

  it('names only files that exist', () => {
    const readme = readFileSync(readmeFile, 'utf8');
    const links = [...readme.matchAll(/\]\((?!https?:|#)([^)]+)\)/g)].map(([, path]) => path ?? '');
    expect(links.length).toBeGreaterThan(0);
    for (const path of links) {
      expect(() => readFileSync(new URL(`../${path}`, import.meta.url)), path).not.toThrow(
        /ENOENT/,
      );
    }
  });
});
