import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { chooseClient } from '../load/choose-client.js';
import { describeMachine } from '../machine.js';
import { adaptiveGroups } from './adaptive-goals.js';
import { footprintGroups } from './footprint-goals.js';
import { formatGoals, type GoalGroup, type GoalResult } from './goal.js';
import { growthGroups } from './growth-goals.js';
import { interferenceGroups } from './interference-goals.js';
import { limitGroups } from './limit-goals.js';
import { peerGroups } from './peer-goals.js';
import { pythonGroups } from './python-goals.js';
import { schedulingGroups } from './scheduling-goals.js';

const groups: readonly GoalGroup[] = [
  ...limitGroups,
  ...interferenceGroups,
  ...growthGroups,
  ...footprintGroups,
  ...peerGroups,
  ...pythonGroups,
  ...schedulingGroups,
  ...adaptiveGroups,
];

const usage = `Usage: npm run bench:goals -- [options] [group ...]
  --peers            also the groups that compare with other servers (bench/peers/setup.sh)
  --quick            one round of a second, fails only where answers are wrong
  --rounds=N         interleaved rounds (5)
  --seconds=N        seconds of load for each number (2)
  --client=NAME      wrk or autocannon (wrk where it is installed)
  --json=DIR         write each group's result to DIR/GROUP.json
Groups: ${groups.map(({ name }) => name).join(' ')}
`;

/** dist/bench/goals/run.js → the project's folder. */
const root = fileURLToPath(new URL('../../../', import.meta.url));

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean', default: false },
      peers: { type: 'boolean', default: false },
      quick: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      client: { type: 'string' },
      json: { type: 'string' },
    },
  });
  const unknown = positionals.filter((name) => !groups.some((group) => group.name === name));
  if (values.help || unknown.length > 0) {
    process.stdout.write(usage);
    process.exitCode = values.help ? 0 : 2;
    return;
  }
  const client = await chooseClient(values.client);
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 5));
  const seconds = Number(values.seconds ?? (values.quick ? 1 : 2));
  const chosen = groups.filter(({ name, hasPeers }) =>
    positionals.length > 0 ? positionals.includes(name) : values.peers || !hasPeers,
  );
  const machine = describeMachine(root);
  const setting = { machine, client: client.name, rounds, seconds };
  const all: GoalResult[] = [];
  for (const group of chosen) {
    const scratch = await mkdtemp(join(tmpdir(), 'nereid-goals-'));
    try {
      process.stderr.write(`${group.name}\n`);
      const results = await group.measure({
        root,
        scratch,
        isQuick: values.quick,
        rounds,
        seconds,
        client,
      });
      all.push(...results);
      if (values.json !== undefined) {
        await mkdir(values.json, { recursive: true });
        const text = JSON.stringify({ ...setting, results }, undefined, 2);
        await writeFile(join(values.json, `${group.name}.json`), `${text}\n`);
      }
    } finally {
      await rm(scratch, { recursive: true });
    }
  }
  process.stdout.write(
    `${machine.date}, Node.js ${machine.node}, ${machine.cores} x ${machine.processor}, ` +
      `client ${client.name}, ${rounds} rounds of ${seconds} s\n\n${formatGoals(all)}\n`,
  );
}

await main();
