import { describe, expect, it } from 'vitest';
import { completeModelConfig } from '../../src/model-config/complete-model-config.js';
import { parseModelConfigText } from '../../src/model-config/read-model-config.js';

function complete(text: string, versionFiles: readonly string[] = [], modelName = 'm') {
  return completeModelConfig(parseModelConfigText(text, 'config.pbtxt'), {
    modelName,
    versionFiles,
  });
}

describe('completeModelConfig', () => {
  it.each([
    // configuration, files, platform, backend, default_model_filename
    ['', ['model.onnx'], 'onnxruntime_onnx', 'onnxruntime', 'model.onnx'],
    ['platform: "onnxruntime_onnx"', [], 'onnxruntime_onnx', 'onnxruntime', 'model.onnx'],
    ['backend: "onnxruntime"', [], 'onnxruntime_onnx', 'onnxruntime', 'model.onnx'],
    [
      'backend: "onnxruntime" default_model_filename: "net.onnx"',
      ['net.onnx'],
      'onnxruntime_onnx',
      'onnxruntime',
      'net.onnx',
    ],
    ['default_model_filename: "model.onnx"', [], 'onnxruntime_onnx', 'onnxruntime', 'model.onnx'],
    ['', ['README', 'model.py'], '', 'python', 'model.py'],
    ['backend: "python"', [], '', 'python', 'model.py'],
    ['backend: "python" platform: "x"', [], 'x', 'python', 'model.py'],
    ['platform: "python"', [], 'python', 'python', 'model.py'],
    ['platform: "python" default_model_filename: "m.py"', ['m.py'], 'python', 'python', 'm.py'],
    ['platform: "javascript"', ['model.mjs'], 'javascript', 'javascript', 'model.mjs'],
    ['', ['model.js'], '', 'javascript', 'model.js'],
    ['', ['model.mjs'], '', 'javascript', 'model.mjs'],
    ['', ['model.js', 'model.mjs'], '', 'javascript', 'model.js'],
    ['backend: "js"', ['model.mjs'], '', 'javascript', 'model.mjs'],
    ['backend: "javascript"', [], '', 'javascript', 'model.js'],
    [
      'backend: "javascript" default_model_filename: "a.js"',
      ['model.mjs'],
      '',
      'javascript',
      'a.js',
    ],
    ['', ['model.onnx', 'model.py'], 'onnxruntime_onnx', 'onnxruntime', 'model.onnx'],
    ['', ['model.plan'], 'tensorrt_plan', 'tensorrt', 'model.plan'],
    ['', ['model.pt'], 'pytorch_libtorch', 'pytorch', 'model.pt'],
    ['', ['model.pt2'], 'torch_aoti', 'pytorch', 'model.pt2'],
    ['platform: "torch_aoti"', [], 'torch_aoti', 'pytorch', 'model.pt2'],
    ['', ['model.xml'], '', 'openvino', 'model.xml'],
    ['', ['model.savedmodel'], 'tensorflow_savedmodel', 'tensorflow', 'model.savedmodel'],
    ['platform: "tensorflow_graphdef"', [], 'tensorflow_graphdef', 'tensorflow', 'model.graphdef'],
    ['backend: "nosuch"', ['model.onnx'], '', 'nosuch', ''],
    ['platform: "nosuch"', ['model.onnx'], 'nosuch', '', ''],
    ['platform: "ensemble"', ['model.onnx'], 'ensemble', '', ''],
    ['ensemble_scheduling { }', [], 'ensemble', '', ''],
  ])('tells the format of %j with files %j', (text, files, platform, backend, filename) => {
    expect(complete(text, files)).toMatchObject({
      platform,
      backend,
      default_model_filename: filename,
    });
  });

  it.each([
    ['net.python', 'python', 'model.py'],
    ['net.v2.js', 'javascript', 'model.js'],
    ['net.identity', 'identity', 'model.identity'],
  ])('takes the backend from the name %s when nothing else tells', (name, backend, filename) => {
    expect(complete('', [], name)).toMatchObject({
      name,
      backend,
      default_model_filename: filename,
    });
  });

  it('says what it found where the file of a model should be', () => {
    expect(() => complete('', ['net.onnx', 'README'], 'net')).toThrow(
      /Its version folder has net\.onnx, README; expected one of: .*model\.onnx.*model\.py/,
    );
    expect(() => complete('', [], 'net')).toThrow("No files in a version folder like 'net/1'");
  });

  it.each(['net', 'net.'])('gives up on the name %s', (name) => {
    expect(() => complete('', ['README'], name)).toThrow(
      `Invalid model name: Could not determine backend for model '${name}' with no backend in model configuration. Expected model name of the form 'model.<backend_name>'.`,
    );
  });

  it('gives the model the name of its folder, and leaves another name to be refused', () => {
    expect(complete('backend: "python"').name).toBe('m');
    expect(complete('name: "other" backend: "python"').name).toBe('other');
  });

  it.each([
    ['', { latest: { num_versions: 1 } }],
    ['version_policy { }', {}],
    ['version_policy { all { } }', { all: {} }],
  ])('makes of version policy %j %j', (text, policy) => {
    expect(complete(`backend: "python" ${text}`).version_policy).toEqual(policy);
  });

  it.each([
    ['python', '', [['m', 'KIND_CPU', 1]]],
    ['onnxruntime', '', [['m', 'KIND_CPU', 2]]],
    ['javascript', '', [['m', 'KIND_CPU', 1]]],
    ['onnxruntime', '{ kind: KIND_CPU }', [['m_0', 'KIND_CPU', 2]]],
    ['onnxruntime', '{ count: 1 }', [['m_0', 'KIND_CPU', 1]]],
    ['onnxruntime', '{ kind: KIND_MODEL }', [['m_0', 'KIND_MODEL', 1]]],
    ['python', '{ kind: KIND_GPU }', [['m_0', 'KIND_GPU', 1]]],
    [
      'python',
      '{ count: 3 }, { name: "x" count: -1 }, { }',
      [
        ['m_0', 'KIND_CPU', 3],
        ['x', 'KIND_CPU', 1],
        ['m_2', 'KIND_CPU', 1],
      ],
    ],
  ])('of a %s model with instance groups [%s] makes %j', (backend, groups, expected) => {
    const config = complete(`backend: "${backend}" instance_group [ ${groups} ]`);
    expect(config.instance_group.map(({ name, kind, count }) => [name, kind, count])).toEqual(
      expected,
    );
  });

  it.each([
    ['max_batch_size: 8 dynamic_batching { }', [8]],
    ['max_batch_size: 0 dynamic_batching { }', []],
    ['max_batch_size: 8 dynamic_batching { preferred_batch_size: 4 }', [4]],
  ])('prefers the largest batch in %j unless told otherwise', (text, sizes) => {
    const config = complete(`backend: "python" ${text}`);
    expect(config.dynamic_batching?.preferred_batch_size).toEqual(sizes);
  });

  it('ends idle sequences after a second unless told otherwise', () => {
    const idle = (text: string) =>
      complete(`backend: "python" sequence_batching { ${text} }`).sequence_batching
        ?.max_sequence_idle_microseconds;
    expect(idle('')).toBe(1_000_000);
    expect(idle('max_sequence_idle_microseconds: 5')).toBe(5);
  });

  it('prefers the largest batch in the oldest strategy too', () => {
    const config = complete('backend: "python" max_batch_size: 4 sequence_batching { oldest { } }');
    expect(config.sequence_batching?.oldest?.preferred_batch_size).toEqual([4]);
  });

  it('pins memory unless told otherwise, but not of an ensemble', () => {
    const pinned = (text: string) => complete(text).optimization?.input_pinned_memory;
    expect(pinned('backend: "python"')).toEqual({ enable: true });
    expect(pinned('backend: "python" optimization { input_pinned_memory { } }')).toEqual({
      enable: false,
    });
    expect(complete('platform: "ensemble" ensemble_scheduling { }').optimization).toBeUndefined();
  });

  it('adds no instances and one response a request to an ensemble', () => {
    expect(complete('ensemble_scheduling { }')).toMatchObject({
      instance_group: [],
      model_transaction_policy: { decoupled: false },
    });
  });

  it('leaves the configuration that it is given as it is', () => {
    const config = parseModelConfigText('max_batch_size: 2 dynamic_batching { }', 'config.pbtxt');
    const before = structuredClone(config);
    completeModelConfig(config, { modelName: 'm', versionFiles: ['model.py'] });
    expect(config).toEqual(before);
  });
});
