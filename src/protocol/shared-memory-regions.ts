import { notFound } from '../errors.js';

/**
 * Registered shared memory regions, as request and response codecs use them. Both methods throw
 * `InferenceServerError`: NOT_FOUND for an unknown region, INVALID_ARG for a range outside of it.
 */
export interface SharedMemoryRegions {
  /** The bytes of a region, which stay as they are until the request ends. */
  read(name: string, offset: number, byteSize: number): Uint8Array;
  /** Copies `bytes` into the region; the caller keeps them. */
  write(name: string, offset: number, bytes: Uint8Array): void;
}

/** For a server without shared memory: every region is unknown. */
export const noSharedMemoryRegions: SharedMemoryRegions = {
  read: refuse,
  write: refuse,
};

function refuse(name: string): never {
  throw notFound(`Unable to find shared memory region: '${name}'`);
}
