import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, it } from 'vitest';
import { ServerProcess } from '../support/server-process.js';

const shipped = fileURLToPath(new URL('../../model_repository/add_sub', import.meta.url));
const isFull = process.env['FULL'] === '1';
const models = isFull ? 200 : 60;
const megabyte = 1e6;
/** The first loads fill pools and let V8 grow its young generation; they are no leak. */
const warmUpCycles = 15;
const cycles = 50;

describe('memory', () => {
  let server: ServerProcess | undefined;
  let repository: string | undefined;

  afterEach(async () => {
    await server?.stop();
    if (repository !== undefined) await rm(repository, { recursive: true });
  });

  async function start(count: number): Promise<ServerProcess> {
    repository = await mkdtemp(path.join(tmpdir(), 'nereid-memory-'));
    const config = await readFile(path.join(shipped, 'config.pbtxt'), 'utf8');
    const withoutGroups = config.replace(/^instance_group[^\n]*\n/m, '');
    for (let index = 0; index < count; index += 1) {
      const folder = path.join(repository, `m${index}`);
      await mkdir(folder);
      await cp(path.join(shipped, '1'), path.join(folder, '1'), { recursive: true });
      const text = `${withoutGroups}\ninstance_group [{ kind: KIND_CPU count: 1 }]\n`;
      await writeFile(path.join(folder, 'config.pbtxt'), text);
    }
    const flags = ['--model-control-mode=explicit', '--load-model=m0', '--log-info=false'];
    server = await ServerProcess.start([`--model-repository=${repository}`, ...flags]);
    return server;
  }

  async function call(name: string, action: 'load' | 'unload'): Promise<void> {
    const url = `${server?.httpUrl}/v2/repository/models/${name}/${action}`;
    const answer = await fetch(url, { method: 'POST' });
    expect(answer.status).toBe(200);
  }

  async function isUnloaded(name: string): Promise<boolean> {
    const answer = await fetch(`${server?.httpUrl}/v2/repository/index`, { method: 'POST' });
    // The index protocol: rows with a name and, once loaded, a state.
    const rows = (await answer.json()) as { readonly name: string; readonly state?: string }[];
    return rows.find((row) => row.name === name)?.state === 'UNAVAILABLE';
  }

  it(`takes at most 12 MB for each of ${models} small ONNX models`, {
    timeout: 300_000,
  }, async () => {
    const running = await start(models + 1);
    const before = running.residentBytes();
    for (let index = 1; index <= models; index += 1) await call(`m${index}`, 'load');
    const each = (running.residentBytes() - before) / models / megabyte;
    expect(each).toBeLessThanOrEqual(12);
  });

  it(`does not grow by more than 10 % over ${cycles} loads and unloads`, {
    timeout: 300_000,
  }, async () => {
    const running = await start(1);
    let before = 0;
    for (let cycle = 0; cycle < warmUpCycles + cycles; cycle += 1) {
      if (cycle === warmUpCycles) before = running.residentBytes();
      await call('m0', 'unload');
      while (!(await isUnloaded('m0'))) await new Promise((resolve) => setTimeout(resolve, 5));
      await call('m0', 'load');
    }
    expect(running.residentBytes() / before).toBeLessThanOrEqual(1.1);
  });
});
