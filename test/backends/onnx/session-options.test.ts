import { describe, expect, it } from 'vitest';
import { planSession } from '../../../src/backends/onnx/session-options.js';
import type { InstanceDescription } from '../../../src/execution/messages.js';
import type { ModelConfig } from '../../../src/model-config/model-config.js';
import { modelConfig } from '../../support/model-configs.js';

const instance: InstanceDescription = {
  modelName: 'm',
  modelVersion: '1',
  modelDirectory: '',
  versionDirectory: '',
  instanceName: 'm_0',
  instanceKind: 'KIND_CPU',
  deviceId: 0,
  defaultIntraOpThreads: 3,
  backendConfig: {},
  logVerboseLevel: 0,
};

const parameters = (values: Readonly<Record<string, string>>): Partial<ModelConfig> => ({
  parameters: Object.fromEntries(
    Object.entries(values).map(([key, value]) => [key, { string_value: value }]),
  ),
});

const optimization = (fields: object): Partial<ModelConfig> => ({
  optimization: {
    priority: 'PRIORITY_DEFAULT',
    gather_kernel_buffer_threshold: 0,
    eager_batching: false,
    ...fields,
  },
});

const plan = (fields: Partial<ModelConfig>, changes: Partial<InstanceDescription> = {}) =>
  planSession({ ...instance, ...changes }, modelConfig(fields));

describe('session options', () => {
  it.each([
    [undefined, 'all'],
    [0, 'all'],
    [-1, 'basic'],
    [1, 'extended'],
    [2, 'disabled'],
    [99, 'all'],
  ])('graph level %s is %s', (level, expected) => {
    const fields = level === undefined ? {} : optimization({ graph: { level } });
    expect(plan(fields).options.graphOptimizationLevel).toBe(expected);
  });

  it('default to the threads that the instance is given', () => {
    const { options } = plan({});
    expect(options).toMatchObject({
      intraOpNumThreads: 3,
      interOpNumThreads: 1,
      executionMode: 'sequential',
    });
    expect(options).not.toHaveProperty('enableCpuMemArena');
  });

  it('prefer the model’s parameters to the backend’s settings', () => {
    const backendConfig = { intra_op_thread_count: '4', inter_op_thread_count: '5' };
    const { options } = plan(parameters({ intra_op_thread_count: '2' }), { backendConfig });
    expect(options).toMatchObject({ intraOpNumThreads: 2, interOpNumThreads: 5 });
  });

  it('take 0 threads as the runtime’s own choice', () => {
    expect(plan(parameters({ intra_op_thread_count: '0' })).options.intraOpNumThreads).toBe(0);
  });

  it.each([
    ['execution_mode', '1', { executionMode: 'parallel' }],
    ['execution_mode', '0', { executionMode: 'sequential' }],
    ['enable_mem_arena', '0', { enableCpuMemArena: false }],
    ['enable_mem_pattern', '1', { enableMemPattern: true }],
    ['session.intra_op.allow_spinning', '0', { extra: { 'session.intra_op.allow_spinning': '0' } }],
  ])('%s: %s', (key, value, expected) => {
    expect(plan(parameters({ [key]: value })).options).toMatchObject(expected);
  });

  it.each([
    ['execution_mode', '2', '0 to 1'],
    ['execution_mode', '', '0 to 1'],
    ['enable_mem_arena', 'yes', '0 to 1'],
    ['intra_op_thread_count', '-1', '0 to 1024'],
    ['intra_op_thread_count', '1.5', '0 to 1024'],
    ['inter_op_thread_count', '1025', '0 to 1024'],
  ])('refuse %s: %s', (key, value, range) => {
    expect(() => plan(parameters({ [key]: value }))).toThrow(
      `model 'm': parameter '${key}' is '${value}', expected an integer from ${range}`,
    );
  });
});

describe('accelerators', () => {
  const accelerators = (gpu: readonly string[], cpu: readonly string[] = []) => {
    const named = (name: string) => ({ name, parameters: {} });
    return optimization({
      execution_accelerators: {
        gpu_execution_accelerator: gpu.map(named),
        cpu_execution_accelerator: cpu.map(named),
      },
    });
  };

  it.each([
    ['gpu', accelerators(['npu'])],
    ['cpu', accelerators([], ['npu'])],
    ['a name of every object', accelerators(['constructor'])],
  ])('%s: unknown names are refused', (_, fields) => {
    expect(() => plan(fields)).toThrow(/^unknown Execution Accelerator '\w+' is requested$/);
  });

  it.each<[string, string, readonly string[], readonly string[], boolean]>([
    ['KIND_GPU', 'wants CUDA by itself', [], ['cuda'], false],
    [
      'KIND_GPU',
      'keeps the order that it is given',
      ['tensorrt', 'cuda'],
      ['tensorrt', 'cuda'],
      false,
    ],
    ['KIND_GPU', 'has CUDA behind TensorRT', ['tensorrt'], ['tensorrt', 'cuda'], false],
    ['KIND_AUTO', 'may do without', ['cuda'], ['cuda'], true],
    ['KIND_CPU', 'has none', ['cuda'], [], false],
  ])('%s %s', (instanceKind, _, gpu, providers, mayFallBack) => {
    const planned = plan(accelerators(gpu), { instanceKind });
    expect(planned.gpuProviders).toEqual(providers);
    expect(planned.mayFallBack).toBe(mayFallBack);
    expect(planned.warnings).toHaveLength(instanceKind === 'KIND_CPU' ? 1 : 0);
  });

  it('a known CPU accelerator that is not here is a warning', () => {
    expect(plan(accelerators([], ['openvino'])).warnings).toEqual([
      "execution accelerator 'openvino' is not part of this server; the CPU runs the model",
    ]);
  });
});
