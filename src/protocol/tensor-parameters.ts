import { readString, readUnsigned, unableToParse } from './json-members.js';
import type { JsonText } from './json-scanner.js';
import type { SharedMemoryTarget } from './response-form.js';

/** Offsets of what `parameters` of an input or output may hold; -1 where it does not. */
export class TensorParameters {
  binaryDataSize = -1;
  binaryData = -1;
  classification = -1;
  region = -1;
  offset = -1;
  byteSize = -1;

  constructor(json: JsonText, at: number) {
    // Anything but an object is passed over, as the reference server does.
    if (at < 0 || json.kind(at) !== 'object') return;
    for (let key = json.firstMember(at); key >= 0; ) {
      const value = json.memberValue(key);
      switch (json.string(key)) {
        case 'binary_data_size':
          if (this.binaryDataSize < 0) this.binaryDataSize = value;
          break;
        case 'binary_data':
          if (this.binaryData < 0) this.binaryData = value;
          break;
        case 'classification':
          if (this.classification < 0) this.classification = value;
          break;
        case 'shared_memory_region':
          if (this.region < 0) this.region = value;
          break;
        case 'shared_memory_offset':
          if (this.offset < 0) this.offset = value;
          break;
        case 'shared_memory_byte_size':
          if (this.byteSize < 0) this.byteSize = value;
          break;
        default:
      }
      key = json.nextMember(value);
    }
  }
}

/** The region that `settings` name; its offset and size are 0 where they are not given. */
export function readRegion(json: JsonText, settings: TensorParameters): SharedMemoryTarget {
  const { region, offset, byteSize } = settings;
  return {
    region: readString(json, region, unableToParse('shared_memory_region')),
    offset: offset < 0 ? 0 : readUnsigned(json, offset, unableToParse('shared_memory_offset')),
    byteSize:
      byteSize < 0 ? 0 : readUnsigned(json, byteSize, unableToParse('shared_memory_byte_size')),
  };
}
