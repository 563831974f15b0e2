import type { GrpcCompressionLevel, HttpTransport } from './options-endpoints.js';
import type { LogFormat, ModelControlMode } from './options-serving.js';
import type {
  AccessRestriction,
  CacheOptions,
  MetricFamilyOptions,
  RateLimitResource,
} from './options-settings.js';
import type { TraceOptions } from './options-trace.js';
import type { RestrictedCategory } from './protocol/restricted-access.js';
import type { WatchMode } from './repository/directory-watch.js';

/** Everything the server can be told at its start, checked, by component. Frozen. */
export interface ServerOptions {
  readonly id: string;
  readonly lifetime: LifetimeOptions;
  readonly limits: LimitOptions;
  readonly log: LogOptions;
  readonly repository: RepositoryOptions;
  readonly execution: ExecutionOptions;
  readonly http: HttpOptions;
  readonly grpc: GrpcOptions;
  readonly metrics: MetricsOptions;
  readonly trace: TraceOptions;
  /** Undefined where the server has no response cache. */
  readonly cache: CacheOptions | undefined;
  readonly rateLimit: RateLimitOptions;
  /** Clients may register system shared memory. */
  readonly isClientShmAllowed: boolean;
  /** To be logged once: options that were accepted and do nothing. */
  readonly warnings: readonly string[];
}

/** When the server starts, is ready and ends. */
export interface LifetimeOptions {
  readonly exitTimeoutSecs: number;
  readonly shutdownDelaySecs: number;
  /** End with exit code 1 where a model fails at start. */
  readonly isExitOnError: boolean;
  readonly isStrictReadiness: boolean;
}

/** What may be in the server at once, over all models and protocols. */
export interface LimitOptions {
  readonly inflightRequestsMax: number;
  readonly inflightBytesMax: number;
}

/** What is logged, how, and where to. */
export interface LogOptions {
  readonly verboseLevel: number;
  readonly isInfoLogged: boolean;
  readonly isWarningLogged: boolean;
  readonly isErrorLogged: boolean;
  readonly format: LogFormat;
  /** '' is the console. */
  readonly file: string;
}

/** Which models are served, and who decides it. */
export interface RepositoryOptions {
  /** At least one; each named once. */
  readonly locations: readonly string[];
  /** '' is a temporary folder. */
  readonly cacheDirectory: string;
  readonly controlMode: ModelControlMode;
  readonly pollSecs: number;
  /** How changes of folders are noticed between polls. */
  readonly watchMode: WatchMode;
  /** Models to load at start in explicit mode; `*` alone is all. */
  readonly startupModels: readonly string[];
  /** Each repository has model names of its own. */
  readonly isNamespaced: boolean;
  /** What may be in memory at once in mode `on-demand`; 0 is no limit. */
  readonly residency: { readonly modelsMax: number; readonly bytesMax: number };
  /** '' is `config.pbtxt`. */
  readonly configName: string;
  readonly isAutoCompleteDisabled: boolean;
  readonly loadsMax: number;
  readonly loadRetriesMax: number;
}

/** What holds for instances of models. */
export interface ExecutionOptions {
  /** 0 is no limit. */
  readonly timeoutMs: number;
  /** Backend → its settings; '' holds those for every backend. */
  readonly backendConfig: ReadonlyMap<string, Readonly<Record<string, string>>>;
}

/** Files by path, checked to be readable. */
export interface TlsOptions {
  readonly certFile: string;
  readonly keyFile: string;
  /** '' does not ask clients for a certificate. */
  readonly clientRootFile: string;
}

interface EndpointOptions {
  readonly isAllowed: boolean;
  readonly address: string;
  readonly port: number;
}

interface InferenceEndpointOptions extends EndpointOptions {
  readonly isPortReused: boolean;
  /** Header names that become request parameters. */
  readonly headerForwardPattern: RegExp | undefined;
  readonly restrictions: ReadonlyMap<RestrictedCategory, AccessRestriction>;
  readonly tls: TlsOptions | undefined;
}

/** The HTTP front end. */
export interface HttpOptions extends InferenceEndpointOptions {
  readonly transport: HttpTransport;
  readonly bodyBytesMax: number;
  readonly isMetricsAllowed: boolean;
}

/** The gRPC front end. */
export interface GrpcOptions extends InferenceEndpointOptions {
  readonly compressionLevel: GrpcCompressionLevel;
  readonly keepaliveTimeMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly connectionAgeMaxMs: number | undefined;
  readonly connectionAgeGraceMs: number | undefined;
}

/** What Prometheus is told, and where. */
export interface MetricsOptions extends EndpointOptions {
  readonly isCpuAllowed: boolean;
  readonly intervalMs: number;
  readonly families: MetricFamilyOptions;
}

/** Resources that instances share. */
export interface RateLimitOptions {
  readonly isEnabled: boolean;
  readonly resources: readonly RateLimitResource[];
}
