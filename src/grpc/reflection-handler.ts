import { type DescFile, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';
import { protoRegistry } from '../proto/descriptors.js';
import { ProtoReader } from '../protocol/reader-proto.js';
import { ProtoWriter } from '../protocol/writer-proto.js';
import type { StreamCall, StreamHandler } from './calls.js';

/** gRPC status numbers. */
const notFound = 5;
const unimplemented = 12;

/**
 * Server reflection (`grpc.reflection`, in both of its versions, whose messages are the same):
 * tells clients such as grpcurl which services there are and what their messages look like.
 */
export class ReflectionHandler {
  readonly #services: readonly string[];

  /** `services` are those that the server has, by full name. */
  constructor(services: readonly string[]) {
    this.#services = services;
  }

  open(call: StreamCall): StreamHandler {
    return {
      onMessage: (message) => {
        try {
          call.send(this.#answer(message), () => undefined);
        } catch (thrown) {
          call.fail(thrown);
        }
      },
      onHalfClose: () => call.end(),
      onCancel: () => undefined,
      onDrain: () => call.end(),
    };
  }

  #answer(message: Uint8Array): Uint8Array {
    const response = new ProtoWriter();
    const reader = new ProtoReader(message);
    let host = '';
    let write = (): unknown => writeError(response, unimplemented, 'unknown reflection request');
    while (reader.next()) {
      switch (reader.tag) {
        case 10:
          host = reader.text();
          break;
        case 26: {
          const name = reader.text();
          const file = findFile((candidate) => `${candidate.name}.proto` === name);
          write = () => writeFile(response, file, `file '${name}'`);
          break;
        }
        case 34: {
          const symbol = reader.text();
          write = () => writeFile(response, fileOfSymbol(symbol), `symbol '${symbol}'`);
          break;
        }
        case 42:
          reader.skip();
          // The .proto files here have no extensions, nor has the language's current version.
          write = () => writeError(response, notFound, 'there are no extensions');
          break;
        case 50: {
          const typeName = reader.text();
          write = () => writeExtensionNumbers(response, typeName);
          break;
        }
        case 58:
          reader.skip();
          write = () => this.#writeServices(response);
          break;
        default:
          reader.skip();
      }
    }
    if (host !== '') response.text(10, host);
    response.bytes(18, message);
    write();
    return response.finish();
  }

  #writeServices(response: ProtoWriter): void {
    const list = new ProtoWriter();
    for (const name of this.#services) list.message(10, new ProtoWriter().text(10, name));
    response.message(50, list);
  }
}

function writeFile(response: ProtoWriter, file: DescFile | undefined, sought: string): void {
  if (file === undefined) {
    writeError(response, notFound, `${sought} is not known`);
    return;
  }
  const files = new ProtoWriter();
  for (const each of withDependencies(file)) {
    files.bytes(10, toBinary(FileDescriptorProtoSchema, each.proto));
  }
  response.message(34, files);
}

function writeExtensionNumbers(response: ProtoWriter, typeName: string): void {
  if (protoRegistry().getMessage(typeName) === undefined) {
    writeError(response, notFound, `type '${typeName}' is not known`);
    return;
  }
  response.message(42, new ProtoWriter().text(10, typeName));
}

function writeError(response: ProtoWriter, code: number, text: string): void {
  response.message(58, new ProtoWriter().integer(8, code).text(18, text));
}

function findFile(isSought: (file: DescFile) => boolean): DescFile | undefined {
  for (const file of protoRegistry().files) {
    if (isSought(file)) return file;
  }
  return undefined;
}

/** The file that declares a service, a method (`service.method`), a message, a field or an enum. */
function fileOfSymbol(symbol: string): DescFile | undefined {
  const registry = protoRegistry();
  const owner = symbol.slice(0, Math.max(symbol.lastIndexOf('.'), 0));
  return (registry.get(symbol) ?? registry.get(owner))?.file;
}

/** The file first, then what it needs, each once: a client may then ask for nothing more. */
function withDependencies(file: DescFile): ReadonlySet<DescFile> {
  const files = new Set([file]);
  for (const each of files) {
    for (const dependency of each.dependencies) files.add(dependency);
  }
  return files;
}
