import { closeSync, constants, fstatSync, openSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import {
  alreadyExists,
  type InferenceServerError,
  internal,
  invalidArg,
  notFound,
  unavailable,
  unsupported,
} from '../errors.js';

/** Whether, and where, clients exchange tensors through shared memory. */
export interface SharedMemoryOptions {
  /** `--allow-client-shm`: off, clients can read nothing of the machine's shared memory. */
  readonly isEnabled: boolean;
  /** Where POSIX shared memory objects are files: /dev/shm on Linux. */
  readonly directory: string;
}

/** A registered range of a POSIX shared memory object. Offsets and sizes are bytes. */
export interface SharedMemoryRegion {
  readonly name: string;
  readonly key: string;
  readonly offset: number;
  readonly byteSize: number;
}

/** Regions that stay as they are, unregistered or not, until `release`. */
export interface HeldRegions {
  read(name: string, offset: number, byteSize: number): Uint8Array;
  write(name: string, offset: number, bytes: Uint8Array): void;
  release(): void;
}

interface OpenRegion extends SharedMemoryRegion {
  readonly fd: number;
  /** Requests that still write to it. */
  holders: number;
  isUnregistered: boolean;
}

/** Each holds a file descriptor. */
const regionsMax = 1024;

/** The reference server's own regions: a client that could name one could run code in it. */
const internalKeyPrefix = 'triton_python_backend_shm_region_';

/**
 * System shared memory of clients, read and written with pread and pwrite: mapping would need
 * native code, and a file that is cut short after it was registered is an error here, not a signal
 * that ends the process.
 */
export class SharedMemoryRegistry {
  readonly #options: SharedMemoryOptions;
  readonly #regions = new Map<string, OpenRegion>();

  constructor(options: SharedMemoryOptions) {
    this.#options = options;
  }

  /** Throws `InferenceServerError` with the reference server's texts. */
  register(name: string, key: string, offset: number, byteSize: number): void {
    this.#requireEnabled();
    if (this.#regions.has(name)) {
      throw alreadyExists(`shared memory region '${name}' already in manager`);
    }
    if (this.#regions.size >= regionsMax) {
      throw unavailable(`at most ${regionsMax} shared memory regions can be registered`);
    }
    const fd = openObject(this.#options.directory, name, key);
    try {
      const { size } = fstatSync(fd);
      if (byteSize === 0) throw refusedRegion(name);
      if (offset + byteSize > size) throw internal(`Invalid shared memory region: '${key}'`);
    } catch (thrown) {
      closeSync(fd);
      throw thrown;
    }
    const region = { name, key, offset, byteSize, fd, holders: 0, isUnregistered: false };
    this.#regions.set(name, region);
  }

  /** Does nothing for a region that is not registered. Running requests keep theirs. */
  unregister(name: string): void {
    this.#requireEnabled();
    const region = this.#regions.get(name);
    if (region !== undefined) this.#remove(region);
  }

  unregisterAll(): void {
    this.#requireEnabled();
    this.close();
  }

  /** All regions, or the one of that name; NOT_FOUND where there is none. */
  status(name: string): readonly SharedMemoryRegion[] {
    if (name === '') {
      return [...this.#regions.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    }
    const region = this.#regions.get(name);
    if (region === undefined) {
      throw notFound(`Unable to find system shared memory region: '${name}'`);
    }
    return [region];
  }

  /** A copy of the bytes as they are now. */
  read(name: string, offset: number, byteSize: number): Uint8Array {
    return readRegion(this.#find(name), offset, byteSize);
  }

  write(name: string, offset: number, bytes: Uint8Array): void {
    writeRegion(this.#find(name), offset, bytes);
  }

  /** The named regions for a request that writes to them when it ends. NOT_FOUND for unknown ones. */
  hold(names: Iterable<string>): HeldRegions {
    const held = new Map<string, OpenRegion>();
    for (const name of names) held.set(name, this.#find(name));
    for (const region of held.values()) region.holders += 1;
    const find = (name: string): OpenRegion => held.get(name) ?? this.#find(name);
    return {
      read: (name, offset, byteSize) => readRegion(find(name), offset, byteSize),
      write: (name, offset, bytes) => writeRegion(find(name), offset, bytes),
      release: () => {
        for (const region of held.values()) {
          region.holders -= 1;
          closeUnused(region);
        }
        held.clear();
      },
    };
  }

  /** Forgets all regions. */
  close(): void {
    for (const region of this.#regions.values()) this.#remove(region);
  }

  #find(name: string): OpenRegion {
    const region = this.#regions.get(name);
    if (region === undefined) throw notFound(`Unable to find shared memory region: '${name}'`);
    return region;
  }

  #remove(region: OpenRegion): void {
    this.#regions.delete(region.name);
    region.isUnregistered = true;
    closeUnused(region);
  }

  #requireEnabled(): void {
    if (this.#options.isEnabled) return;
    throw unsupported(
      "Client shared memory is disabled. Start the server with '--allow-client-shm=true' to enable.",
    );
  }
}

function closeUnused(region: OpenRegion): void {
  if (region.isUnregistered && region.holders === 0) closeSync(region.fd);
}

/** A descriptor of the object that `key` names; links and everything but files are refused. */
function openObject(directory: string, name: string, key: string): number {
  const object = key.replace(/^\/+/, '');
  if (object === '') {
    throw invalidArg(`cannot register shared memory region '${name}' - invalid shm key '${key}'`);
  }
  if (object.startsWith(internalKeyPrefix) || !isPlainName(object)) throw refusedRegion(name);
  let fd: number;
  try {
    // Not blocking, for a pipe that someone else put there.
    const flags = constants.O_RDWR | constants.O_NOFOLLOW | constants.O_NONBLOCK;
    fd = openSync(join(directory, object), flags);
  } catch (cause) {
    throw internal(`Unable to open shared memory region: '${key}'`, cause);
  }
  if (fstatSync(fd).isFile()) return fd;
  closeSync(fd);
  throw refusedRegion(name);
}

/** A name of one object below the directory, as shm_open(3) has it. */
function isPlainName(object: string): boolean {
  return object !== '.' && object !== '..' && !/[/\\\0]/.test(object);
}

/** Deliberately says nothing of why. */
function refusedRegion(name: string): InferenceServerError {
  return invalidArg(`failed to register shared memory region '${name}': invalid args`);
}

function checkRange(region: OpenRegion, offset: number, byteSize: number): void {
  if (offset > region.byteSize) {
    throw invalidArg(`Invalid offset for shared memory region: '${region.name}'`);
  }
  // The reference server refuses a size of 0 (or none) with the same words.
  if (byteSize === 0 || offset + byteSize > region.byteSize) {
    throw invalidArg(`Invalid offset + byte size for shared memory region: '${region.name}'`);
  }
}

function readRegion(region: OpenRegion, offset: number, byteSize: number): Uint8Array {
  checkRange(region, offset, byteSize);
  const bytes = Buffer.allocUnsafeSlow(byteSize);
  let done = 0;
  while (done < byteSize) {
    const position = region.offset + offset + done;
    const count = readSync(region.fd, bytes, done, byteSize - done, position);
    if (count === 0) throw cutShort(region);
    done += count;
  }
  return new Uint8Array(bytes.buffer, bytes.byteOffset, byteSize);
}

function writeRegion(region: OpenRegion, offset: number, bytes: Uint8Array): void {
  if (bytes.byteLength === 0) return;
  checkRange(region, offset, bytes.byteLength);
  // Writing behind the end would make the file longer.
  const end = region.offset + offset + bytes.byteLength;
  if (fstatSync(region.fd).size < end) throw cutShort(region);
  let done = 0;
  while (done < bytes.byteLength) {
    const position = region.offset + offset + done;
    done += writeSync(region.fd, bytes, done, bytes.byteLength - done, position);
  }
}

function cutShort(region: OpenRegion): InferenceServerError {
  return invalidArg(`shared memory region '${region.name}' is shorter than when it was registered`);
}
