import { execFile, execFileSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testInterpreter } from '../backends/python/python-models.js';
import { ScratchFolder } from '../repository/model-files.js';
import { prepareS3Server, S3Server } from '../support/s3-server.js';
import { ServerProcess } from '../support/server-process.js';

const example = fileURLToPath(new URL('../../examples/scenario', import.meta.url));
const torchPython = process.env['NEREID_TEST_TORCH_PYTHON'] ?? '/usr/bin/python3';

const missing = (await prepareS3Server()) ?? lookForTorch();
if (missing !== undefined && process.env['CI'] === 'true') {
  throw new Error(missing);
}

function lookForTorch(): string | undefined {
  try {
    execFileSync(torchPython, ['-c', 'import numpy, torch'], { stdio: 'ignore' });
    return undefined;
  } catch {
    return `${torchPython} cannot import torch: apt-get install python3-torch python3-numpy`;
  }
}

async function until(isReached: () => Promise<boolean> | boolean): Promise<void> {
  while (!(await isReached())) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

describe.skipIf(missing !== undefined)('the example with two models in a bucket', () => {
  let store: S3Server;
  let scratch: ScratchFolder;
  let server: ServerProcess;

  beforeAll(async () => {
    store = await S3Server.start();
    scratch = await ScratchFolder.create({});
    execFileSync(torchPython, [join(example, 'build_resnet.py'), join(scratch.path, 'model.pt')]);
    server = await ServerProcess.start(
      [
        '--model-control-mode=poll',
        '--repository-poll-secs=1',
        '--log-verbose=1',
        `--model-repository=${store.location('model_registry/')}`,
        `--repository-cache-dir=${join(scratch.path, 'cache')}`,
        `--backend-config=python,interpreter=${torchPython}`,
        `--backend-config=pytorch,interpreter=${torchPython}`,
      ],
      store.environment,
    );
  });

  afterAll(async () => {
    await server.stop();
    await store.stop();
    await scratch.remove();
  });

  /** What the example's client prints. */
  async function client(command: string): Promise<string> {
    const host = server.httpUrl.replace('http://', '');
    const file = join(example, 'client.py');
    const { stdout } = await promisify(execFile)(
      testInterpreter(),
      [file, command, '--host', host],
      { maxBuffer: 1 << 20 },
    );
    return stdout;
  }

  /** In the order that is worst for a server that looks in between: the configuration first. */
  async function upload(model: string, file: string, contents: Uint8Array): Promise<void> {
    const folder = `model_registry/${model}`;
    const config = await readFile(join(example, 'models', model, 'config.pbtxt'));
    await store.put(`${folder}/config.pbtxt`, config);
    await store.put(`${folder}/1/${file}`, contents);
    await until(() => server.log.includes(`successfully loaded '${model}'`));
  }

  it('serves each model that is uploaded while it runs, and says so in the log', async () => {
    expect(await client('list-of-models')).toBe('[]\n');
    await upload('add_sub', 'model.py', await readFile(join(example, 'models/add_sub/1/model.py')));
    await upload('resnet', 'model.pt', await readFile(join(scratch.path, 'model.pt')));
    // Python's own form of a list of dicts, as it is shown to people.
    const index = JSON.parse((await client('list-of-models')).replaceAll("'", '"'));
    expect(index).toEqual([
      { name: 'add_sub', version: '1', state: 'READY' },
      { name: 'resnet', version: '1', state: 'READY' },
    ]);
  });

  it('adds and subtracts what the client sends', async () => {
    const printed = await client('call-add-sub-model');
    const [sum, difference] = printed
      .trim()
      .split(/(?<=\])\n/)
      .map((line) =>
        [...line.matchAll(/\[([^\]]*)\]/g)].map(([, numbers = '']) =>
          numbers.trim().split(/\s+/).map(Number),
        ),
      );
    const [left = [], right = [], added = []] = sum ?? [];
    const subtracted = difference?.[2] ?? [];
    expect([left.length, right.length]).toEqual([4, 4]);
    for (const [index, value] of left.entries()) {
      const other = right[index] ?? Number.NaN;
      expect(added[index]).toBeCloseTo(value + other, 5);
      expect(subtracted[index]).toBeCloseTo(value - other, 5);
    }
  });

  it('ranks all 1000 classes of the TorchScript model, best first', async () => {
    const printed = await client('call-resnet');
    const rows = [...printed.matchAll(/b'(-?\d+\.\d{6}):(\d+)'/g)].map(([, score, label]) => ({
      score: Number(score),
      label: Number(label),
    }));
    expect(rows).toHaveLength(1000);
    expect(new Set(rows.map(({ label }) => label)).size).toBe(1000);
    const scores = rows.map(({ score }) => score);
    expect(scores).toEqual(scores.toSorted((a, b) => b - a));
    expect(new Set(scores).size).toBeGreaterThan(500);
  });
});
