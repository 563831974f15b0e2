import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));

/** The layer table of src/README.md: a folder may import itself and what its row lists. */
const mayImport: Readonly<Record<string, readonly string[]>> = {
  errors: [],
  clock: [],
  proto: [],
  inference: ['errors'],
  'model-config': ['errors', 'clock', 'inference', 'proto'],
  observability: ['errors', 'clock', 'inference'],
  protocol: ['errors', 'clock', 'inference', 'proto', 'model-config', 'observability'],
  repository: ['errors', 'clock', 'inference', 'model-config', 'observability'],
  scheduling: ['errors', 'clock', 'inference', 'model-config', 'observability'],
  execution: ['errors', 'clock', 'inference', 'model-config', 'observability'],
  backends: [
    'errors',
    'clock',
    'inference',
    'model-config',
    'observability',
    'execution',
    'protocol',
  ],
  server: [
    'errors',
    'clock',
    'inference',
    'model-config',
    'observability',
    'repository',
    'scheduling',
    'execution',
  ],
  http: ['errors', 'clock', 'inference', 'model-config', 'observability', 'protocol', 'server'],
  grpc: [
    'errors',
    'clock',
    'inference',
    'model-config',
    'observability',
    'protocol',
    'proto',
    'server',
  ],
  'bench-client': ['errors', 'clock', 'inference', 'model-config', 'protocol'],
  tune: ['errors', 'clock', 'inference', 'model-config', 'bench-client'],
  workers: ['errors', 'clock', 'inference', 'model-config', 'protocol', 'execution', 'backends'],
};

/** Third-party package → the folder that alone imports it. */
const owners: Readonly<Record<string, string>> = {
  'uWebSockets.js': 'http',
  piscina: 'execution workers',
  '@aws-sdk/client-s3': 'repository',
  chokidar: 'repository',
  'onnxruntime-node': 'backends',
  'prom-client': 'observability',
  ioredis: 'scheduling',
};

/** Files that touch argv or the environment, and why. */
const environmentReaders: ReadonlySet<string> = new Set([
  'src/main.ts',
  'src/cli.ts',
  // uWebSockets.js takes the limit of a request's headers from a variable.
  'src/http/uws-transport.ts',
  // A Python process needs the environment it is looked up in.
  'src/backends/python/interpreter.ts',
  'src/backends/python/python-process.ts',
]);

const bannedNames = /(^|-)(utils?|helpers?|common|misc|types|manager|processor|index)$/;

interface SourceFile {
  readonly file: string;
  readonly layer: string;
  readonly text: string;
  readonly imports: readonly string[];
}

function sources(): readonly SourceFile[] {
  return ['src', 'workers'].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((relative) => {
        const file = path.join(folder, relative);
        const text = readFileSync(path.join(root, file), 'utf8');
        const imports = [
          ...text.matchAll(/^(?:import|export)[^;]*?from '([^']+)'/gms),
          ...text.matchAll(/\bimport\('([^']+)'\)/g),
        ].flatMap((match) => match[1] ?? []);
        return { file, layer: layerOf(file), text, imports };
      }),
  );
}

/** `http` for src/http/server.ts, `main` for src/main.ts, `workers` for workers/x.ts. */
function layerOf(file: string): string {
  const [top, second, ...rest] = file.split(path.sep);
  if (top === 'workers') return 'workers';
  return rest.length > 0 ? (second ?? '') : (second ?? '').replace(/\.(ts|js)$/, '');
}

describe('the source tree', () => {
  const files = sources();

  it('imports only what the layer table allows', () => {
    const violations = files.flatMap(({ file, layer, imports }) => {
      const allowed = mayImport[layer];
      if (allowed === undefined) return [];
      return imports
        .filter((target) => target.startsWith('.'))
        .map((target) => path.normalize(path.join(path.dirname(file), target)))
        .filter((target) => layerOf(target) !== layer && !allowed.includes(layerOf(target)))
        .map((target) => `${file} imports ${target}`);
    });
    expect(violations).toEqual([]);
  });

  it('imports each third-party package from one folder', () => {
    const violations = files.flatMap(({ file, layer, imports }) =>
      imports
        .filter((target) => owners[target] !== undefined)
        .filter((target) => !owners[target]?.split(' ').includes(layer))
        .map((target) => `${file} imports ${target}`),
    );
    expect(violations).toEqual([]);
  });

  it('names files in kebab-case, for what is inside', () => {
    const names = files.map(({ file }) => path.basename(file, '.ts'));
    const odd = names.filter(
      (name) => !/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name) || bannedNames.test(name),
    );
    expect(odd.filter((name) => name !== 'index')).toEqual([]);
  });

  it('keeps files readable', () => {
    const long = files
      .filter(({ file }) => !file.endsWith('descriptor-set.ts'))
      .map(({ file, text }) => ({ file, lines: text.split('\n').length }))
      .filter(({ lines }) => lines > 400);
    expect(long).toEqual([]);
  });

  it('exports by name, except where Piscina wants a default', () => {
    const violations = files
      .filter(
        ({ file, text }) => /^export default/m.test(text) && !file.endsWith('instance-worker.ts'),
      )
      .map(({ file }) => file);
    expect(violations).toEqual([]);
  });

  it('reads argv and the environment in the command line reader alone', () => {
    const readers = files
      .filter(({ text }) => /process\.(argv|env)\b/.test(text))
      .map(({ file }) => file)
      .filter((file) => !environmentReaders.has(file));
    expect(readers).toEqual([]);
  });
});
