import {
  booleanOption,
  choiceOption,
  customOption,
  fileOption,
  ignoredOption,
  integerOption,
  listOption,
  type OptionGroup,
  OptionValueError,
  optionalIntegerOption,
  textOption,
  unsupportedOption,
} from './options-row.js';
import { parseAccessRestrictions, parseOwnedSetting } from './options-settings.js';

const integerMax = 0x7fffffff;
const noPingLimits = 'Accepted and ignored: pings are neither limited nor counted.';
const headerPatternHelp =
  'Regular expression of header names that become request parameters. Upper and lower case are the same unless it begins with (?-i).';
const restrictionHelp = (flag: string, noun: string): string =>
  `Close groups of endpoints to callers without a secret header: --${flag}=<${noun}s>:<key>=<value>, with <${noun}s> a comma-separated list of health, metadata, inference, shared-memory, model-config, model-repository, statistics, trace, logging. May be given several times.`;

export type HttpTransport = 'auto' | 'uws' | 'node';

export const http = {
  allow: booleanOption('allow-http', true, 'Serve HTTP.'),
  address: textOption(
    'http-address',
    '0.0.0.0',
    'Address to listen on. :: listens on IPv6 and IPv4.',
  ),
  port: portOption(
    'http-port',
    8000,
    'Port to listen on. Without it, and without its variable, the variable PORT is used where set.',
  ),
  reusePort: booleanOption(
    'reuse-http-port',
    false,
    'Let several servers that all have this option listen on the port.',
  ),
  transport: choiceOption<HttpTransport>(
    'http-transport',
    ['auto', 'uws', 'node'],
    'auto',
    'HTTP implementation: "uws" is the fast native one, "node" that of Node.js; "auto" takes the first that loads.',
  ),
  maxInputSize: integerOption(
    'http-max-input-size',
    67108864,
    1,
    integerMax,
    'Bytes that a request body may have, before and after decompression.',
  ),
  headerForwardPattern: patternOption('http-header-forward-pattern'),
  restrictedApi: listOption(
    'http-restricted-api',
    '<<string>:<string>=<string>>',
    restrictionHelp('http-restricted-api', 'api'),
    (text) => parseAccessRestrictions(text, 'api'),
  ),
  allowMetrics: booleanOption(
    'allow-http-metrics',
    false,
    'Answer /metrics on the HTTP port too, for platforms that give a single port.',
  ),
  useSsl: booleanOption('http-use-ssl', false, 'Serve HTTPS.'),
  useSslMutual: booleanOption(
    'http-use-ssl-mutual',
    false,
    'Serve HTTPS and ask clients for a certificate that --http-root-cert signed.',
  ),
  serverCert: fileOption('http-server-cert', 'PEM file of the HTTPS certificate chain.'),
  serverKey: fileOption('http-server-key', 'PEM file of the HTTPS private key.'),
  rootCert: fileOption('http-root-cert', 'PEM file of the authority of client certificates.'),
  threadCount: ignoredOption(
    'http-thread-count',
    '<integer>',
    'Accepted and ignored: one event loop serves HTTP.',
  ),
} as const;

export type GrpcCompressionLevel = 'none' | 'low' | 'medium' | 'high';

export const grpc = {
  allow: booleanOption('allow-grpc', true, 'Serve gRPC.'),
  address: textOption(
    'grpc-address',
    '0.0.0.0',
    'Address to listen on. :: listens on IPv6 and IPv4.',
  ),
  port: portOption('grpc-port', 8001, 'Port to listen on.'),
  reusePort: booleanOption(
    'reuse-grpc-port',
    false,
    'Let several servers that all have this option listen on the port.',
  ),
  headerForwardPattern: patternOption('grpc-header-forward-pattern'),
  restrictedProtocol: listOption(
    'grpc-restricted-protocol',
    '<<string>:<string>=<string>>',
    `${restrictionHelp('grpc-restricted-protocol', 'protocol')} Callers send the header triton-grpc-protocol-<key>.`,
    (text) => parseAccessRestrictions(text, 'protocol'),
  ),
  useSsl: booleanOption('grpc-use-ssl', false, 'Serve gRPC over TLS.'),
  useSslMutual: booleanOption(
    'grpc-use-ssl-mutual',
    false,
    'Serve gRPC over TLS and ask clients for a certificate that --grpc-root-cert signed.',
  ),
  serverCert: fileOption('grpc-server-cert', 'PEM file of the gRPC certificate chain.'),
  serverKey: fileOption('grpc-server-key', 'PEM file of the gRPC private key.'),
  rootCert: fileOption('grpc-root-cert', 'PEM file of the authority of client certificates.'),
  compressionLevel: choiceOption<GrpcCompressionLevel>(
    'grpc-infer-response-compression-level',
    ['none', 'low', 'medium', 'high'],
    'none',
    'Compression of inference responses.',
  ),
  keepaliveTimeMs: integerOption(
    'grpc-keepalive-time',
    7200000,
    1,
    integerMax,
    'Milliseconds without traffic before the server pings a client.',
  ),
  keepaliveTimeoutMs: integerOption(
    'grpc-keepalive-timeout',
    20000,
    1,
    integerMax,
    'Milliseconds to wait for the answer to a ping before the connection is closed.',
  ),
  maxConnectionAgeMs: optionalIntegerOption(
    'grpc-max-connection-age',
    1,
    integerMax,
    'Milliseconds that a connection may live.',
  ),
  maxConnectionAgeGraceMs: optionalIntegerOption(
    'grpc-max-connection-age-grace',
    0,
    integerMax,
    'Milliseconds that calls of a connection past its age may still take.',
  ),
  keepalivePermitWithoutCalls: ignoredOption(
    'grpc-keepalive-permit-without-calls',
    '<boolean>',
    noPingLimits,
  ),
  maxPingsWithoutData: ignoredOption(
    'grpc-http2-max-pings-without-data',
    '<integer>',
    noPingLimits,
  ),
  minRecvPingIntervalMs: ignoredOption(
    'grpc-http2-min-recv-ping-interval-without-data',
    '<integer>',
    noPingLimits,
  ),
  maxPingStrikes: ignoredOption('grpc-http2-max-ping-strikes', '<integer>', noPingLimits),
  inferAllocationPoolSize: ignoredOption(
    'grpc-infer-allocation-pool-size',
    '<integer>',
    'Accepted and ignored: objects are not pooled.',
  ),
  inferThreadCount: ignoredOption(
    'grpc-infer-thread-count',
    '<integer>',
    'Accepted and ignored: one event loop serves gRPC.',
  ),
  maxResponsePoolSize: ignoredOption(
    'grpc-max-response-pool-size',
    '<integer>',
    'Accepted and ignored: objects are not pooled.',
  ),
} as const;

export const metrics = {
  allow: booleanOption('allow-metrics', true, 'Serve Prometheus metrics.'),
  allowCpu: booleanOption('allow-cpu-metrics', true, 'Report processor and memory use.'),
  allowGpu: ignoredOption(
    'allow-gpu-metrics',
    '<boolean>',
    'Accepted and ignored: there are no GPU metrics.',
  ),
  address: textOption('metrics-address', '', 'Address to listen on; that of HTTP where not given.'),
  port: portOption('metrics-port', 8002, 'Port to listen on.'),
  intervalMs: customOption(
    'metrics-interval-ms',
    '<float>',
    2000,
    '2000',
    'Milliseconds between two measurements of processor and memory use.',
    parseInterval,
  ),
  config: listOption(
    'metrics-config',
    '<<string>=<string>>',
    'Setting of the metrics: counter_latencies, summary_latencies, histogram_latencies (true or false), summary_quantiles. May be given several times.',
    parseOwnedSetting,
  ),
} as const;

export const clouds = {
  allowSagemaker: unsupportedEndpoints('allow-sagemaker', 'SageMaker endpoints'),
  sagemakerPort: ignoredOption('sagemaker-port', '<integer>', 'Accepted and ignored.'),
  sagemakerSafePortRange: ignoredOption(
    'sagemaker-safe-port-range',
    '<<integer>-<integer>>',
    'Accepted and ignored.',
  ),
  sagemakerThreadCount: ignoredOption(
    'sagemaker-thread-count',
    '<integer>',
    'Accepted and ignored.',
  ),
  allowVertexAi: unsupportedEndpoints('allow-vertex-ai', 'Vertex AI endpoints'),
  vertexAiPort: ignoredOption('vertex-ai-port', '<integer>', 'Accepted and ignored.'),
  vertexAiThreadCount: ignoredOption(
    'vertex-ai-thread-count',
    '<integer>',
    'Accepted and ignored.',
  ),
  vertexAiDefaultModel: ignoredOption(
    'vertex-ai-default-model',
    '<string>',
    'Accepted and ignored.',
  ),
} as const;

export const endpointGroups: readonly OptionGroup[] = [
  { title: 'HTTP', options: http },
  { title: 'GRPC', options: grpc },
  { title: 'Sagemaker and Vertex', options: clouds },
  { title: 'Metrics', options: metrics },
];

/** Port 0 is refused as in the reference server: nobody could know which port it became. */
function portOption(name: string, defaultValue: number, help: string) {
  return integerOption(name, defaultValue, 1, 65535, help);
}

/** Undefined forwards nothing. The reference server matches a part of the name. */
function patternOption(name: string) {
  return customOption<RegExp | undefined>(
    name,
    '<string>',
    undefined,
    '',
    headerPatternHelp,
    (text) => {
      if (text === '') return undefined;
      const isExact = text.startsWith('(?-i)');
      const source = text.replace(/^\(\?-?i\)/, '');
      try {
        return new RegExp(source, isExact ? 'u' : 'iu');
      } catch {
        throw new OptionValueError(`invalid regular expression: ${text}`);
      }
    },
  );
}

function unsupportedEndpoints(name: string, noun: string) {
  return unsupportedOption(name, `Must be false: no ${noun}.`, `${noun} are not supported`);
}

function parseInterval(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value <= 0) {
    throw new OptionValueError(`Invalid option value. Got ${text}`);
  }
  return value;
}
