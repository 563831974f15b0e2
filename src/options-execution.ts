import {
  booleanOption,
  choiceOption,
  customOption,
  ignoredOption,
  integerOption,
  listOption,
  type OptionGroup,
  optionalIntegerOption,
  parseBoolean,
  textOption,
} from './options-row.js';
import { parseOwnedSetting, parseRateLimitResource } from './options-settings.js';

const integerMax = 0x7fffffff;
const noLibraries = 'Accepted and ignored: no shared libraries are loaded.';
const noGpuMemory = 'Accepted and ignored: the server allocates no memory on devices.';

export const trace = {
  config: listOption(
    'trace-config',
    '<<string>,<string>=<string>>',
    'Trace setting: level=OFF|TIMESTAMPS|TENSORS, rate=N (every N-th request), count=N (-1 is no limit), mode=triton, triton,file=PATH, triton,log-frequency=N (traces a file; 0 is one file). May be given several times.',
    parseOwnedSetting,
  ),
} as const;

export const execution = {
  timeoutMs: integerOption(
    'execution-timeout-ms',
    600000,
    0,
    integerMax,
    'Milliseconds that one execution of a model may take. After that its requests fail and the instance is replaced. 0 is no limit.',
  ),
  backendConfig: listOption(
    'backend-config',
    '<<string>,<string>=<string>>',
    'Setting of a backend: --backend-config=<backend>,<setting>=<value>. May be given several times.',
    parseOwnedSetting,
  ),
  backendDirectory: ignoredOption('backend-directory', '<string>', noLibraries),
  repoagentDirectory: ignoredOption('repoagent-directory', '<string>', noLibraries),
} as const;

export const cache = {
  config: listOption(
    'cache-config',
    '<<string>,<string>=<string>>',
    'Setting of the response cache: local,size=<bytes>; or redis,host=<host>, redis,port=<port>, redis,user=<user>, redis,password=<password>. Models use it where their configuration enables it.',
    parseOwnedSetting,
  ),
  directory: ignoredOption('cache-directory', '<string>', noLibraries),
} as const;

export type RateLimitMode = 'off' | 'execution_count';

export const rateLimit = {
  mode: choiceOption<RateLimitMode>(
    'rate-limit',
    ['off', 'execution_count'],
    'off',
    '"execution_count" runs instances only while the resources that their groups name are free, by priority; "off" ignores resources.',
  ),
  resource: listOption(
    'rate-limit-resource',
    '<<string>:<integer>:<integer>>',
    'Resources that the server has: <name>:<count>[:<device>]. Only with --rate-limit=execution_count. May be given several times.',
    parseRateLimitResource,
  ),
} as const;

export const memory = {
  allowClientShm: booleanOption(
    'allow-client-shm',
    false,
    'Let clients register system shared memory and exchange tensors through it.',
  ),
  pinnedMemoryPoolByteSize: ignoredOption('pinned-memory-pool-byte-size', '<integer>', noGpuMemory),
  cudaMemoryPoolByteSize: ignoredOption(
    'cuda-memory-pool-byte-size',
    '<<integer>:<integer>>',
    noGpuMemory,
  ),
  cudaVirtualAddressSize: ignoredOption(
    'cuda-virtual-address-size',
    '<<integer>:<integer>>',
    noGpuMemory,
  ),
  minSupportedComputeCapability: ignoredOption(
    'min-supported-compute-capability',
    '<float>',
    'Accepted and ignored: onnxruntime decides what it can use.',
  ),
  bufferManagerThreadCount: ignoredOption(
    'buffer-manager-thread-count',
    '<integer>',
    'Accepted and ignored: tensors are not copied by threads.',
  ),
  hostPolicy: ignoredOption(
    'host-policy',
    '<<string>,<string>=<string>>',
    'Accepted and ignored: threads are not bound to cores or memory nodes.',
  ),
  modelLoadGpuLimit: ignoredOption('model-load-gpu-limit', '<<device_id>:<fraction>>', noGpuMemory),
  enablePeerAccess: ignoredOption('enable-peer-access', '<boolean>', noGpuMemory),
} as const;

export const deprecated = {
  strictModelConfig: customOption<boolean | undefined>(
    'strict-model-config',
    '<boolean>',
    undefined,
    '',
    'DEPRECATED: true is --disable-auto-complete-config.',
    parseBoolean,
  ),
  responseCacheByteSize: optionalIntegerOption(
    'response-cache-byte-size',
    0,
    Number.MAX_SAFE_INTEGER,
    'DEPRECATED: use --cache-config=local,size=<bytes>. 0 is no cache.',
  ),
  traceFile: textOption('trace-file', '', 'DEPRECATED: use --trace-config=triton,file=<path>.'),
  traceLevel: listOption(
    'trace-level',
    '<string>',
    'DEPRECATED: use --trace-config=level=<level>.',
    (text) => text,
  ),
  traceRate: optionalIntegerOption(
    'trace-rate',
    1,
    integerMax,
    'DEPRECATED: use --trace-config=rate=<rate>.',
  ),
  traceCount: optionalIntegerOption(
    'trace-count',
    -1,
    integerMax,
    'DEPRECATED: use --trace-config=count=<count>.',
  ),
  traceLogFrequency: optionalIntegerOption(
    'trace-log-frequency',
    0,
    integerMax,
    'DEPRECATED: use --trace-config=triton,log-frequency=<count>.',
  ),
} as const;

export const executionGroups: readonly OptionGroup[] = [
  { title: 'Tracing', options: trace },
  { title: 'Execution and Backends', options: execution },
  { title: 'Response Cache', options: cache },
  { title: 'Rate Limiter', options: rateLimit },
  { title: 'Memory/Device Management', options: memory },
  { title: 'DEPRECATED', options: deprecated },
];
