import { readFileSync } from 'node:fs';
import { describe, expect, it, vi } from 'vitest';
import { readCommandLine } from '../src/cli.js';
import type { ServerOptions } from '../src/options.js';
import { GivenOptions, type GivenTexts } from '../src/options-given.js';
import { readServerOptions } from '../src/options-reading.js';
import { environmentName, optionGroups, optionsByName } from '../src/options-table.js';

const thisFile = new URL(import.meta.url).pathname;

function serve(argv: readonly string[], env: Record<string, string> = {}): ServerOptions {
  const commandLine = readCommandLine(['--model-repository=/models', ...argv], env);
  if (commandLine.type !== 'serve') throw new Error(JSON.stringify(commandLine));
  return commandLine.options;
}

function refuse(argv: readonly string[], env: Record<string, string> = {}): string {
  const commandLine = readCommandLine(['--model-repository=/models', ...argv], env);
  if (commandLine.type !== 'invalid') throw new Error(`accepted: ${argv.join(' ')}`);
  return commandLine.text;
}

describe('the option table', () => {
  it('knows every option of the recorded help text of the reference server', () => {
    const help = readFileSync(
      new URL('./conformance/golden/help.txt', import.meta.url).pathname,
      'utf8',
    );
    const recorded = [...help.matchAll(/^ {2}--([a-z0-9-]+)/gm)].map(([, name]) => name ?? '');
    expect(recorded.length).toBeGreaterThan(80);
    const known = new Set([...optionsByName.keys(), 'help']);
    expect(recorded.filter((name) => !known.has(name))).toEqual([]);
  });

  it('names each option once', () => {
    const names = optionGroups.flatMap(({ options }) =>
      Object.values(options).map(({ name }) => name),
    );
    expect(new Set(names).size).toBe(names.length);
  });

  it('holds no option that would be accepted and then read by nobody', () => {
    const given = new Map<string, GivenTexts>();
    const read = vi.spyOn(given, 'get');
    readServerOptions(new GivenOptions(given), undefined);
    const names = new Set(read.mock.calls.map(([name]) => name));
    const silent = [...optionsByName.values()].filter(
      (option) => !option.isIgnored && !names.has(option.name),
    );
    expect(silent.map(({ name }) => name)).toEqual([]);
  });
});

describe('defaults', () => {
  it('are those of the reference server', () => {
    const options = serve([]);
    expect(options.id).toBe('triton');
    expect(options.lifetime).toEqual({
      exitTimeoutSecs: 30,
      shutdownDelaySecs: 0,
      isExitOnError: true,
      isStrictReadiness: true,
    });
    expect(options.repository).toMatchObject({
      locations: ['/models'],
      controlMode: 'none',
      pollSecs: 15,
      startupModels: [],
      isAutoCompleteDisabled: false,
      loadsMax: 4,
      loadRetriesMax: 0,
    });
    expect(options.http).toMatchObject({
      isAllowed: true,
      address: '0.0.0.0',
      port: 8000,
      bodyBytesMax: 67108864,
      headerForwardPattern: undefined,
      tls: undefined,
    });
    expect(options.grpc).toMatchObject({
      isAllowed: true,
      port: 8001,
      compressionLevel: 'none',
    });
    expect(options.metrics).toMatchObject({
      isAllowed: true,
      port: 8002,
      intervalMs: 2000,
    });
    expect(options.trace).toMatchObject({ levels: [], rate: 1000, count: -1 });
    expect(options.cache).toBeUndefined();
    expect(options.rateLimit).toEqual({ isEnabled: false, resources: [] });
    expect(options.isClientShmAllowed).toBe(false);
    expect(options.warnings).toEqual([]);
  });

  it('cannot be changed afterwards', () => {
    const options = serve([]);
    expect(Object.isFrozen(options)).toBe(true);
    expect(Object.isFrozen(options.http)).toBe(true);
    expect(Object.isFrozen(options.repository.locations)).toBe(true);
  });
});

describe('values', () => {
  it('take the metrics address from HTTP unless it is named', () => {
    expect(serve(['--http-address=127.0.0.1']).metrics.address).toBe('127.0.0.1');
    expect(serve(['--http-address=127.0.0.1', '--metrics-address=::1']).metrics.address).toBe(
      '::1',
    );
  });

  it('keep repositories in order and name each once', () => {
    const { locations } = serve([
      '--model-store=s3://b/x',
      '--model-repository=/models',
    ]).repository;
    expect(locations).toEqual(['/models', 's3://b/x']);
  });

  it('take the last of a repeated single option', () => {
    expect(serve(['--http-port=8100', '--http-port=8200']).http.port).toBe(8200);
  });

  it.each([
    ['--exit-on-error=false', false],
    ['--exit-on-error=0', false],
    ['--exit-on-error=True', true],
    ['--exit-on-error=1', true],
  ])('read %s as %s', (argument, expected) => {
    expect(serve([argument]).lifetime.isExitOnError).toBe(expected);
  });

  it.each([
    ['--log-verbose=3', 3],
    ['--log-verbose=true', 1],
    ['--log-verbose=false', 0],
  ])('read %s as level %i', (argument, expected) => {
    expect(serve([argument]).log.verboseLevel).toBe(expected);
  });

  it('group backend settings by backend, without touching prototypes', () => {
    const { backendConfig } = serve([
      '--backend-config=python,interpreter=/opt/python',
      '--backend-config=python,__proto__=x',
      '--backend-config=default-max-batch-size=4',
    ]).execution;
    expect(backendConfig.get('python')?.['interpreter']).toBe('/opt/python');
    expect(Object.getPrototypeOf(backendConfig.get('python'))).toBe(Object.prototype);
    expect(backendConfig.get('')).toEqual({ 'default-max-batch-size': '4' });
  });

  it('read restricted endpoints by category', () => {
    const { restrictions } = serve([
      '--http-restricted-api=metadata,model-repository:infer-key=v=1',
      '--http-restricted-api=trace:other=w',
    ]).http;
    expect([...restrictions.keys()]).toEqual(['metadata', 'model-repository', 'trace']);
    expect(restrictions.get('model-repository')).toEqual({
      category: 'model-repository',
      header: 'infer-key',
      value: 'v=1',
    });
  });

  it('forward headers without regard to case unless (?-i) asks for it', () => {
    const loose = serve(['--http-header-forward-pattern=(x-fwd-.*)']).http.headerForwardPattern;
    expect(loose?.test('X-Fwd-Name')).toBe(true);
    expect(loose?.test('other')).toBe(false);
    const exact = serve(['--http-header-forward-pattern=(?-i)x-fwd-.*']).http.headerForwardPattern;
    expect(exact?.test('x-fwd-name')).toBe(true);
    expect(exact?.test('X-Fwd-Name')).toBe(false);
  });

  it.each([
    [['--cache-config=local,size=1048576'], { kind: 'local', sizeBytes: 1048576 }],
    [['--response-cache-byte-size=100'], { kind: 'local', sizeBytes: 100 }],
    [['--response-cache-byte-size=0'], undefined],
    [
      ['--cache-config=redis,host=h', '--cache-config=redis,port=6380'],
      {
        kind: 'redis',
        host: 'h',
        port: 6380,
        user: '',
        password: '',
        isTls: false,
      },
    ],
  ])('read %j as a cache', (argv, expected) => {
    expect(serve(argv).cache).toEqual(expected);
  });

  it('read trace settings, the old spellings below the new one', () => {
    const options = serve([
      '--trace-file=/old',
      '--trace-rate=5',
      '--trace-count=7',
      '--trace-config=level=TIMESTAMPS',
      '--trace-config=level=TENSORS',
      '--trace-config=rate=2',
      '--trace-config=triton,file=/new',
      '--trace-config=triton,log-frequency=10',
    ]);
    expect(options.trace).toEqual({
      levels: ['TIMESTAMPS', 'TENSORS'],
      rate: 2,
      count: 7,
      file: '/new',
      logFrequency: 10,
    });
  });

  it('read metric families and quantiles', () => {
    const { families } = serve([
      '--metrics-config=summary_latencies=true',
      '--metrics-config=summary_quantiles=0.5:0.05,0.9:0.01',
      '--metrics-config=counter_latencies=false',
    ]).metrics;
    expect(families).toEqual({
      isCounterLatencies: false,
      isSummaryLatencies: true,
      isHistogramLatencies: false,
      summaryQuantiles: [
        [0.5, 0.05],
        [0.9, 0.01],
      ],
    });
  });

  it('read rate-limit resources, with and without a device', () => {
    const { rateLimit } = serve([
      '--rate-limit=execution_count',
      '--rate-limit-resource=R1:10',
      '--rate-limit-resource=r2:5:1',
    ]);
    expect(rateLimit.resources).toEqual([
      { name: 'r1', count: 10, device: undefined },
      { name: 'r2', count: 5, device: 1 },
    ]);
  });

  it('read certificates where TLS is on', () => {
    expect(
      serve([
        '--http-use-ssl-mutual=true',
        `--http-server-cert=${thisFile}`,
        `--http-server-key=${thisFile}`,
        `--http-root-cert=${thisFile}`,
      ]).http.tls,
    ).toEqual({
      certFile: thisFile,
      keyFile: thisFile,
      clientRootFile: thisFile,
    });
  });
});

describe('limits', () => {
  it.each([
    ['--http-port=1', '--http-port=0'],
    ['--http-port=65535', '--http-port=65536'],
    ['--http-max-input-size=1', '--http-max-input-size=0'],
    ['--model-load-thread-count=1', '--model-load-thread-count=0'],
    ['--exit-timeout-secs=0', '--exit-timeout-secs=-1'],
    ['--trace-count=-1', '--trace-count=-2'],
    ['--trace-rate=1', '--trace-rate=0'],
    ['--max-inflight-requests=1', '--max-inflight-requests=0'],
    ['--metrics-interval-ms=0.5', '--metrics-interval-ms=0'],
  ])('accept %s and refuse %s', (good, bad) => {
    expect(() => serve([good])).not.toThrow();
    expect(refuse([bad])).toContain(`Bad option: "${bad.slice(0, bad.indexOf('='))}".`);
  });

  it('apply to the poll interval in poll mode', () => {
    const poll = '--model-control-mode=poll';
    expect(serve([poll, '--repository-poll-secs=1']).repository.pollSecs).toBe(1);
    for (const text of ['0', '-1', 'abc']) {
      expect(refuse([poll, `--repository-poll-secs=${text}`])).toContain(
        `Bad option: "--repository-poll-secs".\nInvalid option value. Got ${text}`,
      );
    }
  });
});

describe('refusals', () => {
  it.each([
    ['--model-control-mode=foo', 'Got foo, expected one of: none, poll, explicit, on-demand'],
    // Texts that begin as the reference server was recorded to print them.
    ['--exit-on-error=maybe', 'invalid value for bool option: maybe'],
    ['--http-port=abc', 'Invalid option value. Got abc, expected a whole number'],
    ['--http-restricted-api=nope:k=v', "unknown restricted api 'nope'"],
    ['--grpc-restricted-protocol=nope:k=v', "unknown restricted protocol 'nope'"],
    ['--http-restricted-api=metadata', 'expected <apis>:<key>=<value>'],
    ['--http-header-forward-pattern=(', 'invalid regular expression'],
    ['--log-format=xml', 'expected one of: default, ISO8601, json'],
    ['--model-config-name=a b', 'no spaces'],
    ['--model-config-name=../a', 'no spaces, slashes'],
    ['--backend-config=nothing', 'expected [<owner>,]<setting>=<value>'],
    ['--rate-limit=maybe', 'off, execution_count'],
    ['--allow-sagemaker=true', 'SageMaker endpoints are not supported'],
    ['--allow-vertex-ai=true', 'Vertex AI endpoints are not supported'],
  ])('name the option and the fault of %s', (argument, message) => {
    const text = refuse([argument]);
    expect(text).toContain(`Bad option: "${argument.slice(0, argument.indexOf('='))}".\n`);
    expect(text).toContain(message);
  });

  it.each([
    ['--cache-config=local,size=0', 'Invalid option value. Got 0'],
    ['--cache-config=local,length=5', "unknown local cache setting 'length'"],
    ['--cache-config=disk,size=5', "unknown cache 'disk'"],
    ['--trace-config=mode=opentelemetry', "trace mode 'opentelemetry' is not supported"],
    ['--trace-config=speed=1', "unknown trace setting 'speed'"],
    ['--trace-config=level=ALL', "invalid trace level 'ALL'"],
    ['--metrics-config=color=red', "unknown metrics setting 'color'"],
    ['--metrics-config=summary_quantiles=2:0', 'expected <quantile>:<error>'],
  ])('say what is wrong in %s', (argument, message) => {
    expect(refuse([argument])).toContain(message);
  });

  it.each([
    [
      ['--load-model=a'],
      "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.",
    ],
    [
      ['--model-control-mode=explicit', '--load-model=*', '--load-model=a'],
      "Wildcard model name '*' must be the ONLY startup model if specified at all.",
    ],
    [['--repository-poll-secs=5'], "requires setting '--model-control-mode=poll'"],
    [['--rate-limit-resource=r:1'], "requires setting '--rate-limit=execution_count'"],
    [[`--http-server-cert=${thisFile}`], "requires '--http-use-ssl=true'"],
    [['--http-use-ssl=true'], "'--http-use-ssl' requires '--http-server-key'"],
    [['--grpc-use-ssl-mutual=true'], "requires '--grpc-root-cert'"],
    [['--grpc-use-ssl=true', '--grpc-server-cert=/nowhere'], "cannot read file '/nowhere'"],
    [['--trace-config=level=TIMESTAMPS'], "requires '--trace-config=triton,file=<path>'"],
    [
      ['--response-cache-byte-size=5', '--cache-config=local,size=5'],
      "'--response-cache-byte-size' contradicts '--cache-config'",
    ],
    [
      ['--strict-model-config=false', '--disable-auto-complete-config'],
      "'--strict-model-config' contradicts '--disable-auto-complete-config'",
    ],
    [['--allow-http=false', '--allow-grpc=false'], "'--allow-http' and '--allow-grpc'"],
    [['--http-port=8001'], "'--http-port' and '--grpc-port' are both 8001"],
    [['--metrics-port=8000'], "'--http-port' and '--metrics-port' are both 8000"],
    [
      ['--http-restricted-api=trace:a=b', '--http-restricted-api=trace:c=d'],
      "restricted api 'trace' can not be specified in multiple config groups",
    ],
  ])('stop a start in which an option could have no effect: %j', (argv, message) => {
    expect(refuse(argv)).toContain(message);
  });

  it('let endpoints that are switched off share a port', () => {
    expect(serve(['--http-port=8001', '--allow-grpc=false']).http.port).toBe(8001);
    expect(serve(['--metrics-port=8000', '--allow-metrics=false']).metrics.port).toBe(8000);
  });

  it('list all problems at once', () => {
    const text = refuse(['--http-port=abc', '--exit-on-error=maybe', '--load-model=a']);
    expect(text).toContain('Got abc');
    expect(text).toContain('bool option: maybe');
    expect(text).toContain("'--load-model' requires");
  });

  it('never repeat the secret of a restriction', () => {
    expect(refuse(['--http-restricted-api=nope:key=s3cret'])).not.toContain('s3cret');
  });
});

describe('options without effect here', () => {
  it('are accepted with one warning each', () => {
    const { warnings } = serve([
      '--pinned-memory-pool-byte-size=1',
      '--cuda-memory-pool-byte-size=0:1',
      '--cuda-memory-pool-byte-size=1:1',
      '--http-thread-count=8',
    ]);
    expect(warnings).toHaveLength(3);
    for (const name of ['pinned-memory-pool-byte-size', 'cuda-memory', 'http-thread-count']) {
      expect(warnings.filter((warning) => warning.includes(`--${name}`))).toHaveLength(1);
    }
  });
});

describe('environment names', () => {
  it('follow from the option', () => {
    expect(environmentName('http-port')).toBe('NEREID_HTTP_PORT');
  });
});
