import { fromBinary, fromJson, type JsonValue, toBinary, toJson } from '@bufbuild/protobuf';
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  type ClientDuplexStream,
  credentials,
  Metadata,
  type ServiceError,
  type status,
} from '@grpc/grpc-js';
import { serviceDescriptor } from '../../src/proto/descriptors.js';

/** How a call ended. */
export interface Answer {
  /** OK is 0. */
  readonly code: status | 0;
  readonly details: string;
  /** The response in its JSON form; undefined where there was none. */
  readonly response: JsonValue | undefined;
}

type Headers = Readonly<Record<string, string>>;

const inference = 'inference.GRPCInferenceService';

/** Calls methods by name, with messages in their JSON form. */
export class GrpcClient {
  readonly #client: Client;

  constructor(
    target: string,
    options: ChannelOptions = {},
    channel: ChannelCredentials = credentials.createInsecure(),
  ) {
    this.#client = new Client(target, channel, {
      'grpc.max_receive_message_length': -1,
      'grpc.use_local_subchannel_pool': 1,
      ...options,
    });
  }

  /** One response. `onStart` gets what cancels the call. */
  call(
    method: string,
    request: JsonValue = {},
    { headers = {}, deadlineMs, service = inference, onStart }: CallOptions = {},
  ): Promise<Answer> {
    const { path, serialize, deserialize } = codecOf(service, method);
    return new Promise((resolve) => {
      const call = this.#client.makeUnaryRequest<JsonValue, JsonValue>(
        path,
        serialize,
        deserialize,
        request,
        metadataOf(headers),
        deadlineMs === undefined ? {} : { deadline: Date.now() + deadlineMs },
        (error: ServiceError | null, response?: JsonValue) => {
          resolve({ code: error?.code ?? 0, details: error?.details ?? '', response });
        },
      );
      onStart?.(() => call.cancel());
    });
  }

  stream(method: string, headers: Headers = {}, service = inference): GrpcStream {
    const { path, serialize, deserialize } = codecOf(service, method);
    return new GrpcStream(
      this.#client.makeBidiStreamRequest(path, serialize, deserialize, metadataOf(headers)),
    );
  }

  close(): void {
    this.#client.close();
  }
}

interface CallOptions {
  readonly headers?: Headers;
  readonly deadlineMs?: number;
  readonly service?: string;
  readonly onStart?: (cancel: () => void) => void;
}

/** A stream read message by message. */
export class GrpcStream {
  readonly call: ClientDuplexStream<JsonValue, JsonValue>;
  readonly #messages: JsonValue[] = [];
  #end: Omit<Answer, 'response'> | undefined;
  #wake: () => void = () => undefined;

  constructor(call: ClientDuplexStream<JsonValue, JsonValue>) {
    this.call = call;
    call.on('data', (message: JsonValue) => {
      this.#messages.push(message);
      this.#wake();
    });
    call.on('error', () => {
      // The status tells it.
    });
    call.on('status', ({ code, details }) => {
      this.#end = { code, details };
      this.#wake();
    });
  }

  send(request: JsonValue): void {
    this.call.write(request);
  }

  halfClose(): void {
    this.call.end();
  }

  /** The next message; undefined where the stream has ended without one. */
  async next(): Promise<JsonValue | undefined> {
    for (;;) {
      const message = this.#messages.shift();
      if (message !== undefined || this.#end !== undefined) return message;
      await this.#change();
    }
  }

  /** Resolves when the stream has ended, with what was not read before. */
  async ended(): Promise<Omit<Answer, 'response'> & { readonly rest: readonly JsonValue[] }> {
    while (this.#end === undefined) await this.#change();
    return { ...this.#end, rest: this.#messages.splice(0) };
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }
}

function metadataOf(headers: Headers): Metadata {
  const metadata = new Metadata();
  for (const [name, value] of Object.entries(headers)) {
    metadata.set(name, name.endsWith('-bin') ? Buffer.from(value) : value);
  }
  return metadata;
}

function codecOf(service: string, method: string) {
  const descriptor = serviceDescriptor(service).methods.find(({ name }) => name === method);
  if (descriptor === undefined) throw new Error(`no method ${method}`);
  const { input, output } = descriptor;
  return {
    path: `/${service}/${method}`,
    serialize: (request: JsonValue) => Buffer.from(toBinary(input, fromJson(input, request))),
    deserialize: (bytes: Buffer): JsonValue =>
      toJson(output, fromBinary(output, bytes), { useProtoFieldName: true }),
  };
}
