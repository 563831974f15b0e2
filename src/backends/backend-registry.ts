import { invalidArg } from '../errors.js';
import type { Backend } from './backend.js';

/**
 * The backend of that name, loaded only now: a thread pays for no runtime but its own. Throws
 * INVALID_ARG for a name that no backend has.
 */
export async function loadBackend(name: string): Promise<Backend> {
  switch (name) {
    case 'onnxruntime':
      return (await import('./onnx/onnx-backend.js')).onnxBackend;
    case 'javascript':
    case 'js':
      return (await import('./javascript/javascript-backend.js')).javascriptBackend;
    case 'python':
    case 'pytorch':
    case 'tensorflow':
    case 'tensorrt':
      return (await import('./python/python-backend.js')).pythonBackend;
    default:
      throw invalidArg(`unable to find backend library for backend '${name}'`);
  }
}
