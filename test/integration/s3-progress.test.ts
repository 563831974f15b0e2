import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { prepareS3Server, S3Server } from '../support/s3-server.js';
import { findFreePorts } from '../support/server-process.js';
import { SlowLink } from '../support/slow-link.js';

const missing = await prepareS3Server();
if (missing !== undefined && process.env['CI'] === 'true') {
  throw new Error(missing);
}

const mainFile = fileURLToPath(new URL('../../dist/src/main.js', import.meta.url));

/** Runs a command on a pseudo-terminal of 100 columns and copies what it shows to its own output. */
const onTerminal = `
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 100, 0, 0))
print(child, flush=True)
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:
        break
    if not data:
        break
    os.write(1, data)
`;

const config = `backend: "javascript"
  input [ { name: "X" data_type: TYPE_INT32 dims: [ 1 ] } ]
  output [ { name: "Y" data_type: TYPE_INT32 dims: [ 1 ] } ]`;

describe.skipIf(missing !== undefined)('a long first sync', () => {
  let store: S3Server;
  let link: SlowLink;
  let child: ChildProcess | undefined;

  beforeAll(async () => {
    store = await S3Server.start();
    for (const name of ['a', 'b']) {
      await store.putAll({
        [`${name}/config.pbtxt`]: config,
        [`${name}/1/model.mjs`]: 'export default ({ X }) => ({ Y: X });',
        [`${name}/1/weights.bin`]: Buffer.alloc(2_000_000, 7),
      });
    }
    link = await SlowLink.open(Number(new URL(store.endpoint).port), 1_000_000);
  });

  afterEach(() => {
    child?.kill('SIGKILL');
  });

  afterAll(async () => {
    await link.close();
    await store.stop();
  });

  /** What the command shows until its server is ready, then ends it. */
  async function output(command: string, ...before: readonly string[]): Promise<string> {
    const [httpPort, grpcPort, metricsPort] = await findFreePorts();
    child = spawn(
      command,
      [
        ...before,
        mainFile,
        `--model-repository=s3://http://127.0.0.1:${link.port}/${store.bucket}`,
        '--http-address=127.0.0.1',
        `--http-port=${httpPort}`,
        `--grpc-port=${grpcPort}`,
        `--metrics-port=${metricsPort}`,
      ],
      {
        env: { PATH: process.env['PATH'], TERM: 'xterm', ...store.environment },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let text = '';
    let isReady = () => {};
    const ready = new Promise<void>((resolve) => {
      isReady = resolve;
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (text.includes('Started HTTP service')) isReady();
      });
    }
    const ended = once(child, 'exit');
    await Promise.race([
      ready,
      ended.then(() => {
        throw new Error(`the server has ended:\n${text}`);
      }),
    ]);
    process.kill(Number(/^\d+(?=\r?\n)/.exec(text)?.[0] ?? child.pid), 'SIGKILL');
    await ended;
    return text;
  }

  it('moves a bar on a terminal, and leaves one line of it', async () => {
    const text = await output('python3', '-c', onTerminal, process.execPath);
    const shares = [...text.matchAll(/fetching models \[[=> ]{3,40}\] (\d+) %/g)].map(([, share]) =>
      Number(share),
    );
    expect(shares.length).toBeGreaterThan(5);
    expect(shares).toEqual([...shares].sort((a, b) => a - b));
    expect(text).toMatch(/of 4 files, [0-9.]+ MB of 4\.0 MB/);
    // What stays on the screen: every bar was erased before the line after it.
    const lines = text.split('\n').map((line) => line.split('\r\u001b[K').at(-1) ?? '');
    expect(lines.join('\n')).toMatch(/fetched 4 files of 2 models, 4\.0 MB in [0-9.]+ s/);
    expect(lines.filter((line) => line.includes('fetching models'))).toEqual([]);
  });

  it('writes a line every few seconds into a log', async () => {
    const text = await output(process.execPath);
    const lines = text.split('\n').filter((line) => line.includes('fetching models'));
    expect(lines.length).toBeGreaterThan(0);
    expect(lines.length).toBeLessThan(4);
    expect(lines[0]).toMatch(/fetching models: \d+ %, \d of 4 files, [0-9.]+ [kM]B of 4\.0 MB/);
    expect(text).toMatch(/fetched 4 files of 2 models, 4\.0 MB in [0-9.]+ s/);
    expect(text).not.toContain('\u001b');
  });
});
