// Runs every suite that this machine allows and adds up what they report.
//   node test/run.mjs            all suites
//   node test/run.mjs unit ...   the named ones
// A suite whose tool is missing is named as not run, with how to get the tool; with CI=true that is
// a failure. FULL=1 runs the long forms (soak, peers, large files) where a suite has one, and the
// suites that are only run then (or when named).
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { add, check, counted, run } from './commands.mjs';
import {
  kservePython,
  optionalTools,
  prepareGrpcurl,
  prepareImages,
  prepareKserve,
  preparePerfAnalyzer,
  preparePython,
  prepareRealModels,
  venvPython,
} from './tools.mjs';

const scratch = mkdtempSync(join(tmpdir(), 'nereid-test-'));
const isCi = process.env.CI === 'true';
const isFull = process.env.FULL === '1';

function vitest(project, { files = [], env = {} } = {}) {
  const report = join(scratch, `${project}.json`);
  const options = ['--config', 'test/vitest.config.ts', '--project', project];
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const { code } = run('npx', ['vitest', 'run', ...options, ...reporters, ...files], { env });
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

function prepareTools() {
  const missing = optionalTools.filter(({ prepare }) => !prepare());
  for (const { name, how } of missing)
    console.log(`${name}: tests that need it are not run. ${how}`);
  return {
    passed: optionalTools.length - missing.length,
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
    run: () => counted(venvPython, ['test/conformance/check_proto.py', 'tritonclient']),
  },
  {
    name: 'kserve',
    needs: prepareKserve,
    run: () =>
      add(
        counted(kservePython, ['test/conformance/check_proto.py', 'kserve']),
        counted(kservePython, ['test/conformance/run_clients.py', 'kserve_client']),
      ),
  },
  {
    name: 'programs',
    needs: () => preparePython() ?? preparePerfAnalyzer() ?? prepareGrpcurl(),
    run: () => counted(venvPython, ['test/conformance/run_clients.py', 'programs']),
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
  {
    name: 'bench',
    needs: prepareRealModels,
    run: () =>
      [
        ['node', ['dist/bench/run.js', '--quick']],
        ...(process.env.FULL === '1'
          ? [
              ['bench/peers/setup.sh', []],
              ['node', ['dist/bench/goals/run.js', '--quick', '--peers']],
            ]
          : [['node', ['dist/bench/goals/run.js', '--quick']]]),
      ]
        .map(([command, args]) => check(command, args))
        .reduce(add),
  },
  {
    // What versitygw shows in every run, with a store of another kind: ten minutes to build it.
    name: 'seaweed',
    isLong: true,
    needs: preparePython,
    run: () =>
      vitest('integration', {
        files: ['repository-s3', 's3-progress', 'repository-serving', 'scenario'].map(
          (name) => `test/integration/${name}.test.ts`,
        ),
        // A store that cannot be built must not be skipped here.
        env: { TEST_S3_SERVER: 'seaweedfs', CI: 'true' },
      }),
  },
  {
    name: 'image',
    isLong: true,
    needs: () => preparePython() ?? prepareImages(),
    run: () => counted(venvPython, ['test/conformance/run_clients.py', 'image']),
  },
];

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
  if (suite.isLong && !isFull && wanted.length === 0) {
    rows.push(`${suite.name}: optional, not run: FULL=1 npm test, or npm test ${suite.name}`);
    continue;
  }
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
