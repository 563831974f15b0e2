import { invalidArg } from '../errors.js';
import { encodeMessage, readName } from '../protocol/control-proto.js';
import { readRegionRegistration } from '../protocol/shared-memory-proto.js';
import type { SharedMemoryRegistry } from '../server/shared-memory.js';

const emptyMessage = new Uint8Array(0);

/** The shared memory extensions; a server without GPUs has nothing to share for CUDA. */
export class SharedMemoryHandler {
  readonly #regions: SharedMemoryRegistry;

  constructor(regions: SharedMemoryRegistry) {
    this.#regions = regions;
  }

  status(message: Uint8Array): Uint8Array {
    const rows = this.#regions.status(readName(message));
    const regions = Object.fromEntries(
      rows.map(({ name, key, offset, byteSize }) => [
        name,
        { name, key, offset, byte_size: byteSize },
      ]),
    );
    return encodeMessage('inference.SystemSharedMemoryStatusResponse', { regions });
  }

  register(message: Uint8Array): Uint8Array {
    const { name, key, offset, byteSize } = readRegionRegistration(message);
    this.#regions.register(name, key, offset, byteSize);
    return emptyMessage;
  }

  unregister(message: Uint8Array): Uint8Array {
    const name = readName(message);
    if (name === '') this.#regions.unregisterAll();
    else this.#regions.unregister(name);
    return emptyMessage;
  }

  cudaStatus(): Uint8Array {
    return emptyMessage;
  }

  cudaRegister(message: Uint8Array): Uint8Array {
    const name = readName(message);
    throw invalidArg(`failed to register CUDA shared memory region: '${name}', GPUs not supported`);
  }

  cudaUnregister(): Uint8Array {
    return emptyMessage;
  }
}
