import type { InferenceSession } from 'onnxruntime-node';
import { invalidArg } from '../../errors.js';
import type { InstanceDescription } from '../../execution/messages.js';
import type { ExecutionAccelerator, ModelConfig } from '../../model-config/model-config.js';

/** Accelerators for a CPU that the reference server's backend knows. */
const cpuAccelerators: ReadonlySet<string> = new Set(['openvino']);
/** The same for GPUs, each with the runtime's name of its execution provider. */
const gpuProviders: Readonly<Record<string, string>> = { tensorrt: 'tensorrt', cuda: 'cuda' };

const parameterKeys = {
  intraOp: 'intra_op_thread_count',
  interOp: 'inter_op_thread_count',
  executionMode: 'execution_mode',
  memArena: 'enable_mem_arena',
  memPattern: 'enable_mem_pattern',
} as const;

/** Entries of the runtime's own session configuration pass through under this prefix. */
const sessionKeyPrefix = 'session.';

/** How a session is opened, and what to do where a GPU is wanted and absent. */
export interface SessionPlan {
  readonly options: InferenceSession.SessionOptions;
  /** Providers that the configuration wants before the CPU, in order. */
  readonly gpuProviders: readonly string[];
  /** True where a CPU may run the model if those are absent. */
  readonly mayFallBack: boolean;
  /** What was asked for and can't be had, for the log. */
  readonly warnings: readonly string[];
}

/**
 * What a configuration, the server's backend settings and the defaults make of a session. Throws
 * INVALID_ARG for values out of range and for accelerators that do not exist.
 *
 * `optimization { graph { level } }` reads oddly, and is so in the reference server: -1 is basic, 1
 * is extended, 2 is none at all, everything else is all.
 */
export function planSession(instance: InstanceDescription, config: ModelConfig): SessionPlan {
  const setting = (key: string): string | undefined =>
    config.parameters[key]?.string_value ?? instance.backendConfig[key];
  const count = (key: string): number | undefined =>
    integer(key, setting(key), 0, 1024, instance.modelName);
  const flag = (key: string): boolean | undefined => {
    const value = integer(key, setting(key), 0, 1, instance.modelName);
    return value === undefined ? undefined : value === 1;
  };
  const executionMode = integer(
    parameterKeys.executionMode,
    setting(parameterKeys.executionMode),
    0,
    1,
    instance.modelName,
  );
  const memArena = flag(parameterKeys.memArena);
  const memPattern = flag(parameterKeys.memPattern);
  const accelerators = planAccelerators(instance, config);
  return {
    options: {
      intraOpNumThreads: count(parameterKeys.intraOp) ?? instance.defaultIntraOpThreads,
      interOpNumThreads: count(parameterKeys.interOp) ?? 1,
      executionMode: executionMode === 1 ? 'parallel' : 'sequential',
      graphOptimizationLevel: optimizationLevel(config),
      // What the runtime would print is in the errors that it throws.
      logSeverityLevel: instance.logVerboseLevel > 0 ? 2 : 4,
      extra: sessionEntries(config),
      ...(memArena !== undefined && { enableCpuMemArena: memArena }),
      ...(memPattern !== undefined && { enableMemPattern: memPattern }),
    },
    ...accelerators,
  };
}

function planAccelerators(
  instance: InstanceDescription,
  config: ModelConfig,
): Pick<SessionPlan, 'gpuProviders' | 'mayFallBack' | 'warnings'> {
  const wanted = config.optimization?.execution_accelerators;
  const providers: string[] = [];
  const warnings: string[] = [];
  for (const { name } of wanted?.gpu_execution_accelerator ?? []) {
    const provider = Object.hasOwn(gpuProviders, name) ? gpuProviders[name] : undefined;
    if (provider === undefined) throw unknownAccelerator(name);
    providers.push(provider);
  }
  warnings.push(...cpuWarnings(wanted?.cpu_execution_accelerator ?? []));
  if (instance.instanceKind === 'KIND_GPU' && !providers.includes('cuda')) providers.push('cuda');
  if (instance.instanceKind === 'KIND_CPU' && providers.length > 0) {
    warnings.push(`GPU accelerators do not apply to instances of KIND_CPU and are ignored`);
    providers.length = 0;
  }
  return { gpuProviders: providers, mayFallBack: instance.instanceKind === 'KIND_AUTO', warnings };
}

function cpuWarnings(accelerators: readonly ExecutionAccelerator[]): readonly string[] {
  return accelerators.map(({ name }) => {
    if (!cpuAccelerators.has(name)) throw unknownAccelerator(name);
    return `execution accelerator '${name}' is not part of this server; the CPU runs the model`;
  });
}

function optimizationLevel(
  config: ModelConfig,
): NonNullable<InferenceSession.SessionOptions['graphOptimizationLevel']> {
  switch (config.optimization?.graph?.level) {
    case -1:
      return 'basic';
    case 1:
      return 'extended';
    case 2:
      return 'disabled';
    default:
      return 'all';
  }
}

/** `session.*` parameters as the nested document in which the runtime takes them. */
function sessionEntries(config: ModelConfig): Record<string, unknown> {
  const entries: Record<string, unknown> = {};
  for (const [key, { string_value: value }] of Object.entries(config.parameters)) {
    if (key.startsWith(sessionKeyPrefix)) entries[key] = value;
  }
  return entries;
}

function integer(
  key: string,
  text: string | undefined,
  min: number,
  max: number,
  modelName: string,
): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (text.trim() === '' || !Number.isInteger(value) || value < min || value > max) {
    throw invalidArg(
      `model '${modelName}': parameter '${key}' is '${text}', expected an integer from ${min} to ${max}`,
    );
  }
  return value;
}

function unknownAccelerator(name: string): Error {
  return invalidArg(`unknown Execution Accelerator '${name}' is requested`);
}
