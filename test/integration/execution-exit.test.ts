import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

const path = (relative: string) => fileURLToPath(new URL(`../../${relative}`, import.meta.url));

it('a process that ends in the middle of a runtime call ends with its own exit code', () => {
  const script = path('test/fixtures/exit-during-call.mjs');
  const { status, stderr } = spawnSync(
    process.execPath,
    [script, path('test/fixtures/models/onnx_slow'), path('dist')],
    { encoding: 'utf8', timeout: 30_000 },
  );
  expect([status, stderr]).toEqual([5, '']);
});
