import { ProtoReader } from './reader-proto.js';

/** `SystemSharedMemoryRegisterRequest`. Offset and size in bytes. */
export interface RegionRegistration {
  readonly name: string;
  readonly key: string;
  readonly offset: number;
  readonly byteSize: number;
}

/** `SystemSharedMemoryRegisterRequest`. */
export function readRegionRegistration(bytes: Uint8Array): RegionRegistration {
  const reader = new ProtoReader(bytes);
  let name = '';
  let key = '';
  let offset = 0;
  let byteSize = 0;
  while (reader.next()) {
    if (reader.tag === 10) name = reader.text();
    else if (reader.tag === 18) key = reader.text();
    else if (reader.tag === 24) offset = reader.uint64Number();
    else if (reader.tag === 32) byteSize = reader.uint64Number();
    else reader.skip();
  }
  return { name, key, offset, byteSize };
}
