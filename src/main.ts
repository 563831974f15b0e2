#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import type { CommandOutput } from './bench-client/command-output.js';
import type { ComposedServer } from './compose.js';
import type { ServerOptions } from './options.js';

/** How long a forced end may take before the process ends regardless. */
const destroyTimeoutMs = 2_000;

/** The process: options → compose → start → signals → drain → exit code. */
async function main(): Promise<void> {
  keepYoungHeapSmall(true);
  const { readCommandLine } = await import('./cli.js');
  const command = readCommandLine(process.argv.slice(2), process.env);
  switch (command.type) {
    case 'help':
      process.stdout.write(command.text);
      return;
    case 'version':
      process.stdout.write(`nereid ${packageVersion()}\n`);
      return;
    case 'invalid':
      process.stderr.write(command.text);
      process.exitCode = 1;
      return;
    case 'serve':
      await serve(command.options);
      return;
    case 'bench': {
      keepYoungHeapSmall(false);
      const { runBench } = await import('./bench-client/bench-command.js');
      process.exitCode = await runBench(command.options, commandOutput);
      return;
    }
    case 'tune': {
      keepYoungHeapSmall(false);
      const { runTune } = await import('./tune/tune-command.js');
      const { availableCores } = await import('./execution/available-cores.js');
      const machine = { cores: availableCores(), environment: process.env };
      process.exitCode = await runTune(command.options, commandOutput, machine);
      return;
    }
  }
}

/** Results go where they can be piped from; what is going on, beside them. */
const commandOutput: CommandOutput = {
  print: (text) => process.stdout.write(text),
  note: (text) => process.stderr.write(text),
};

async function serve(options: ServerOptions): Promise<void> {
  const stopSignal = nextStopSignal();
  let server: ComposedServer;
  try {
    const { composeServer } = await import('./compose.js');
    server = await composeServer(options, packageVersion(), process.env);
    await Promise.race([server.start(), stopSignal]);
    keepYoungHeapSmall(false);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`error: creating server: ${reason}\n`);
    process.exit(1);
  }
  await stopSignal;
  process.exit(await stopWithin(server, options));
}

/**
 * What is loaded at the start lives long: without this the heap for young objects doubles three
 * times to copy it around, and 6 MB stay taken by a server that nobody uses yet.
 */
function keepYoungHeapSmall(isSmall: boolean): void {
  setFlagsFromString(`--semi-space-growth-factor=${isSmall ? 1 : 2}`);
}

/** 0 where everything accepted was answered in time, 1 where the exit time-out cut it off. */
async function stopWithin(server: ComposedServer, options: ServerOptions): Promise<number> {
  const { exitTimeoutSecs, shutdownDelaySecs } = options.lifetime;
  const isDone = server.stop(shutdownDelaySecs * 1000).then(() => true);
  const isLate = after((shutdownDelaySecs + exitTimeoutSecs) * 1000).then(() => false);
  if (await Promise.race([isDone, isLate])) return 0;
  server.logExitTimeout();
  await Promise.race([server.destroy(), after(destroyTimeoutMs)]);
  return 1;
}

/** Resolves at the first SIGTERM or SIGINT; later ones change nothing. */
function nextStopSignal(): Promise<void> {
  return new Promise((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => resolve());
  });
}

function after(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, delayMs).unref();
  });
}

function packageVersion(): string {
  // The package's own file: `version` is a string by the package format.
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(text) as { version: string }).version;
}

await main();
