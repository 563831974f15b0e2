import { describe, expect, it } from 'vitest';
import { suggestion } from '../src/errors.js';

describe('suggestion', () => {
  it.each([
    ['--http-prot', ['--http-port', '--grpc-port'], '--http-port'],
    ['--model-repositry', ['--model-store', '--model-repository'], '--model-repository'],
    ['onnx', ['onnxruntime', 'python'], 'onnxruntime'],
    ['pyhton', ['python', 'pytorch'], 'python'],
  ])('finds for %s what was meant', (given, allowed, meant) => {
    expect(suggestion(given, allowed)).toBe(` (did you mean '${meant}'?)`);
  });

  it.each([
    ['nosuch', ['onnxruntime', 'python']],
    ['openvino', ['onnxruntime', 'python']],
    ['py', ['python']],
    ['', ['a']],
    ['x', []],
  ])('guesses nothing for %j among %j', (given, allowed) => {
    expect(suggestion(given, allowed)).toBe('');
  });
});
