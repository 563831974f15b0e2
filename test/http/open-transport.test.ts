import { describe, expect, it } from 'vitest';
import { describeFallback } from '../../src/http/open-transport.js';

describe('the warning when uWebSockets.js cannot be loaded', () => {
  const cases: readonly (readonly [string, string, string | undefined, string])[] = [
    [
      "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found",
      'v22.1.0',
      '2.36',
      'Node v22.1.0, glibc 2.36 found, glibc 2.38 needed',
    ],
    [
      "Cannot find module './uws_linux_x64_147.node'",
      'v26.0.0',
      '2.41',
      'Node v26.0.0, glibc 2.41 found, no binary for them',
    ],
    ['Error loading shared library', 'v20.0.0', undefined, 'Node v20.0.0, no glibc found'],
  ];

  it.each(cases)(
    'says for "%s" what was found and what is needed',
    (text, node, glibc, expected) => {
      const warning = describeFallback(new Error(text), node, glibc);
      expect(warning).toContain(expected);
      expect(warning).toContain('node:http, which takes about three times the CPU time');
      expect(warning).not.toContain('\n');
    },
  );
});
