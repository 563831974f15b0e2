import type {
  GrpcOptions,
  HttpOptions,
  RateLimitOptions,
  RepositoryOptions,
  ServerOptions,
  TlsOptions,
} from './options.js';
import { clouds, grpc, http, metrics } from './options-endpoints.js';
import { cache, deprecated, execution, memory, rateLimit, trace } from './options-execution.js';
import type { GivenOptions } from './options-given.js';
import type { Option } from './options-row.js';
import { log, repository, server } from './options-serving.js';
import {
  type AccessRestriction,
  type CacheOptions,
  joinAccessRestrictions,
  type OwnedSetting,
  readCacheOptions,
  readMetricFamilyOptions,
} from './options-settings.js';
import { optionsByName } from './options-table.js';
import { readTraceOptions, type TraceOptions } from './options-trace.js';
import type { RestrictedCategory } from './protocol/restricted-access.js';

const noRestrictions: ReadonlyMap<RestrictedCategory, AccessRestriction> = new Map();

/**
 * Builds the server's options from what the user gave. `platformPort` is the text of the `PORT`
 * variable, undefined where it is not set. Wrong values and options that could have no effect are
 * collected in `given.problems`; the result is only good where there are none.
 */
export function readServerOptions(
  given: GivenOptions,
  platformPort: string | undefined,
): ServerOptions {
  // Read only so that they are refused.
  for (const row of [clouds.allowSagemaker, clouds.allowVertexAi]) {
    given.read(row);
  }
  const options: ServerOptions = {
    id: given.read(server.id),
    lifetime: {
      exitTimeoutSecs: given.read(server.exitTimeoutSecs),
      shutdownDelaySecs: given.read(server.shutdownDelaySecs),
      isExitOnError: given.read(repository.exitOnError),
      isStrictReadiness: given.read(repository.strictReadiness),
    },
    limits: {
      inflightRequestsMax: given.read(server.maxInflightRequests),
      inflightBytesMax: given.read(server.maxInflightBytes),
    },
    log: {
      verboseLevel: given.read(log.verbose),
      isInfoLogged: given.read(log.info),
      isWarningLogged: given.read(log.warning),
      isErrorLogged: given.read(log.error),
      format: given.read(log.format),
      file: given.read(log.file),
    },
    repository: readRepositoryOptions(given),
    execution: {
      timeoutMs: given.read(execution.timeoutMs),
      backendConfig: groupByOwner(given.read(execution.backendConfig)),
    },
    http: readHttpOptions(given, platformPort),
    grpc: readGrpcOptions(given),
    metrics: {
      isAllowed: given.read(metrics.allow),
      address: given.read(metrics.address) || given.read(http.address),
      port: given.read(metrics.port),
      isCpuAllowed: given.read(metrics.allowCpu),
      intervalMs: given.read(metrics.intervalMs),
      families: given.check('--metrics-config', readMetricFamilyOptions([]), () =>
        readMetricFamilyOptions(given.read(metrics.config)),
      ),
    },
    trace: readTrace(given),
    cache: readCache(given),
    rateLimit: readRateLimit(given),
    isClientShmAllowed: given.read(memory.allowClientShm),
    warnings: readIgnored(given),
  };
  refusePortClash(given, options);
  return deepFreeze(options);
}

function readRepositoryOptions(given: GivenOptions): RepositoryOptions {
  const locations = [
    ...given.read(repository.modelRepository),
    ...given.read(repository.modelStore),
  ];
  if (locations.length === 0) given.problems.push('Error: --model-repository must be specified');
  const controlMode = given.read(repository.controlMode);
  given.refuse(
    repository.loadModel,
    controlMode !== 'explicit',
    "Error: Use of '--load-model' requires setting '--model-control-mode=explicit' as well.",
  );
  given.refuse(
    repository.pollSecs,
    controlMode !== 'poll',
    "Error: Use of '--repository-poll-secs' requires setting '--model-control-mode=poll' as well.",
  );
  given.refuse(
    repository.watchMode,
    controlMode !== 'poll',
    "Error: Use of '--repository-watch' requires setting '--model-control-mode=poll' as well.",
  );
  for (const row of [repository.maxLoadedModels, repository.modelMemoryBudget]) {
    given.refuse(
      row,
      controlMode !== 'on-demand',
      `Error: Use of '--${row.name}' requires setting '--model-control-mode=on-demand' as well.`,
    );
  }
  const isNamespaced = given.read(repository.namespacing);
  given.refuse(
    repository.namespacing,
    isNamespaced && controlMode === 'on-demand',
    "Error: '--model-namespacing' does not go together with '--model-control-mode=on-demand'.",
  );
  const startupModels = [...new Set(given.read(repository.loadModel))];
  if (startupModels.includes('*') && startupModels.length > 1) {
    given.problems.push(
      "error: creating server: Invalid argument - Wildcard model name '*' must be the ONLY startup model if specified at all.",
    );
  }
  return {
    locations: [...new Set(locations)],
    cacheDirectory: given.read(repository.cacheDir),
    controlMode,
    pollSecs: given.read(repository.pollSecs),
    watchMode: given.read(repository.watchMode),
    startupModels,
    isNamespaced,
    residency: {
      modelsMax: given.read(repository.maxLoadedModels),
      bytesMax: given.read(repository.modelMemoryBudget),
    },
    configName: given.read(repository.modelConfigName),
    isAutoCompleteDisabled: readAutoCompleteDisabled(given),
    loadsMax: given.read(repository.loadThreadCount),
    loadRetriesMax: given.read(repository.loadRetryCount),
  };
}

function readAutoCompleteDisabled(given: GivenOptions): boolean {
  const isDisabled = given.read(repository.disableAutoCompleteConfig);
  const isStrict = given.read(deprecated.strictModelConfig);
  if (isStrict === undefined) return isDisabled;
  given.refuse(
    repository.disableAutoCompleteConfig,
    isStrict !== isDisabled,
    "Error: '--strict-model-config' contradicts '--disable-auto-complete-config'; give only the latter.",
  );
  return isStrict;
}

function readHttpOptions(given: GivenOptions, platformPort: string | undefined): HttpOptions {
  const port =
    given.isGiven(http.port) || platformPort === undefined || platformPort === ''
      ? given.read(http.port)
      : given.check('PORT', http.port.defaultValue, () => http.port.parse([platformPort]));
  return {
    isAllowed: given.read(http.allow),
    address: given.read(http.address),
    port,
    isPortReused: given.read(http.reusePort),
    headerForwardPattern: given.read(http.headerForwardPattern),
    restrictions: given.check('--http-restricted-api', noRestrictions, () =>
      joinAccessRestrictions(given.read(http.restrictedApi), 'api'),
    ),
    tls: readTlsOptions(given, 'http', http),
    transport: given.read(http.transport),
    bodyBytesMax: given.read(http.maxInputSize),
    isMetricsAllowed: given.read(http.allowMetrics),
  };
}

function readGrpcOptions(given: GivenOptions): GrpcOptions {
  return {
    isAllowed: given.read(grpc.allow),
    address: given.read(grpc.address),
    port: given.read(grpc.port),
    isPortReused: given.read(grpc.reusePort),
    headerForwardPattern: given.read(grpc.headerForwardPattern),
    restrictions: given.check('--grpc-restricted-protocol', noRestrictions, () =>
      joinAccessRestrictions(given.read(grpc.restrictedProtocol), 'protocol'),
    ),
    tls: readTlsOptions(given, 'grpc', grpc),
    compressionLevel: given.read(grpc.compressionLevel),
    keepaliveTimeMs: given.read(grpc.keepaliveTimeMs),
    keepaliveTimeoutMs: given.read(grpc.keepaliveTimeoutMs),
    connectionAgeMaxMs: given.read(grpc.maxConnectionAgeMs),
    connectionAgeGraceMs: given.read(grpc.maxConnectionAgeGraceMs),
  };
}

function readTlsOptions(
  given: GivenOptions,
  protocol: string,
  rows: {
    readonly useSsl: Option<boolean>;
    readonly useSslMutual: Option<boolean>;
    readonly serverCert: Option<string>;
    readonly serverKey: Option<string>;
    readonly rootCert: Option<string>;
  },
): TlsOptions | undefined {
  const isMutual = given.read(rows.useSslMutual);
  const isTls = isMutual || given.read(rows.useSsl);
  for (const row of [rows.serverCert, rows.serverKey]) {
    given.refuse(
      row,
      !isTls,
      `Error: Use of '--${row.name}' requires '--${protocol}-use-ssl=true'.`,
    );
    if (isTls && !given.isGiven(row)) {
      given.problems.push(`Error: '--${protocol}-use-ssl' requires '--${row.name}'.`);
    }
  }
  given.refuse(
    rows.rootCert,
    !isMutual,
    `Error: Use of '--${rows.rootCert.name}' requires '--${protocol}-use-ssl-mutual=true'.`,
  );
  if (isMutual && !given.isGiven(rows.rootCert)) {
    given.problems.push(
      `Error: '--${protocol}-use-ssl-mutual' requires '--${rows.rootCert.name}'.`,
    );
  }
  const certFile = given.read(rows.serverCert);
  const keyFile = given.read(rows.serverKey);
  const clientRootFile = given.read(rows.rootCert);
  return isTls ? { certFile, keyFile, clientRootFile } : undefined;
}

function readTrace(given: GivenOptions): TraceOptions {
  const deprecatedSettings = {
    file: given.read(deprecated.traceFile),
    levels: given.read(deprecated.traceLevel),
    rate: given.read(deprecated.traceRate),
    count: given.read(deprecated.traceCount),
    logFrequency: given.read(deprecated.traceLogFrequency),
  };
  const options = given.check('--trace-config', undefined, () =>
    readTraceOptions(given.read(trace.config), deprecatedSettings),
  );
  if (options === undefined) {
    return { levels: [], rate: 1000, count: -1, file: '', logFrequency: 0 };
  }
  if (options.levels.length > 0 && options.file === '') {
    given.problems.push("Error: tracing requires '--trace-config=triton,file=<path>'.");
  }
  return options;
}

function readCache(given: GivenOptions): CacheOptions | undefined {
  const settings = given.read(cache.config);
  const sizeBytes = given.read(deprecated.responseCacheByteSize);
  given.refuse(
    deprecated.responseCacheByteSize,
    settings.length > 0,
    "Error: '--response-cache-byte-size' contradicts '--cache-config'; give only the latter.",
  );
  if (sizeBytes !== undefined) return sizeBytes === 0 ? undefined : { kind: 'local', sizeBytes };
  return given.check('--cache-config', undefined, () => readCacheOptions(settings));
}

function readRateLimit(given: GivenOptions): RateLimitOptions {
  const isEnabled = given.read(rateLimit.mode) === 'execution_count';
  given.refuse(
    rateLimit.resource,
    !isEnabled,
    "Error: Use of '--rate-limit-resource' requires setting '--rate-limit=execution_count' as well.",
  );
  return { isEnabled, resources: given.read(rateLimit.resource) };
}

function readIgnored(given: GivenOptions): readonly string[] {
  return [...optionsByName.values()]
    .filter((option) => option.isIgnored && given.isGiven(option))
    .map((option) => `--${option.name} has no effect here: ${option.help}`);
}

/** The endpoints that are switched on need ports of their own, and one must serve inference. */
function refusePortClash(given: GivenOptions, options: ServerOptions): void {
  if (!options.http.isAllowed && !options.grpc.isAllowed) {
    given.problems.push("Error: at least one of '--allow-http' and '--allow-grpc' must be true.");
  }
  const takenBy = new Map<number, string>();
  for (const name of ['http', 'grpc', 'metrics'] as const) {
    const { isAllowed, port } = options[name];
    if (!isAllowed) continue;
    const other = takenBy.get(port);
    if (other !== undefined) {
      given.problems.push(`Error: '--${other}-port' and '--${name}-port' are both ${port}.`);
    }
    takenBy.set(port, name);
  }
}

function groupByOwner(
  settings: readonly OwnedSetting[],
): ReadonlyMap<string, Readonly<Record<string, string>>> {
  const grouped = new Map<string, Record<string, string>>();
  for (const { owner, name, value } of settings) {
    const group = grouped.get(owner) ?? {};
    Object.defineProperty(group, name, { value, enumerable: true });
    grouped.set(owner, group);
  }
  return grouped;
}

/** Plain objects and arrays all the way down; maps are readonly by type only. */
function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || value instanceof RegExp) return value;
  for (const member of Object.values(value)) deepFreeze(member);
  return Object.freeze(value);
}
