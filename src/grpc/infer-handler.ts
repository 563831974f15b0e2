import { type InferenceServerError, internal, unsupported } from '../errors.js';
import type { InferenceRequest, ParameterValue } from '../inference/infer-request.js';
import type { InferenceResponse, ResponseHandler } from '../inference/infer-response.js';
import { readVersion } from '../protocol/control-proto.js';
import type { ForwardedHeaders, HeaderSource } from '../protocol/forwarded-headers.js';
import { type InferMessage, readInferMessage } from '../protocol/infer-message-proto.js';
import { bindInferRequest } from '../protocol/infer-request-proto.js';
import { encodeInferResponse } from '../protocol/infer-response-proto.js';
import type { ResponseForm } from '../protocol/response-form.js';
import type { InferenceServer, ServedModel } from '../server/inference-server.js';
import type { HeldRegions, SharedMemoryRegistry } from '../server/shared-memory.js';
import type { UnaryCall } from './calls.js';

export interface InferDeps {
  readonly server: InferenceServer;
  readonly regions: SharedMemoryRegistry;
  readonly forwardedHeaders: ForwardedHeaders;
}

/** `ModelInfer`. */
export class InferHandler {
  readonly #deps: InferDeps;

  constructor(deps: InferDeps) {
    this.#deps = deps;
  }

  handle(call: UnaryCall): void {
    const prepared = prepareInfer(readInferMessage(call.message), call.headers, this.#deps);
    if (prepared.model.isDecoupled) {
      prepared.regions?.release();
      throw unsupported("ModelInfer RPC doesn't support models with decoupled transaction policy");
    }
    const handle = this.#deps.server.infer(
      prepared.request,
      new SingleAnswer(call, prepared, this.#deps.regions),
    );
    call.onCancel(() => handle.cancel());
  }
}

/** A request that is ready to run, and how its responses leave. */
export interface PreparedInfer {
  readonly request: InferenceRequest;
  readonly model: ServedModel;
  readonly form: ResponseForm;
  readonly wantsEmptyFinalResponse: boolean;
  /** Of the outputs that go to shared memory: to be released when the request ends. */
  readonly regions: HeldRegions | undefined;
}

/** Throws INVALID_ARG, NOT_FOUND or UNAVAILABLE. */
export function prepareInfer(
  message: InferMessage,
  headers: HeaderSource,
  deps: InferDeps,
): PreparedInfer {
  const { server, regions, forwardedHeaders } = deps;
  const modelVersion = readVersion(message.modelVersion);
  const model = server.servedModel(message.modelName, modelVersion);
  const forwarded = forwardedHeaders.select(headers);
  const bound = bindInferRequest(message, model, regions);
  return {
    request: withVersionAndParameters(bound.request, modelVersion, forwarded),
    model,
    form: bound.responseForm,
    wantsEmptyFinalResponse: bound.wantsEmptyFinalResponse,
    regions: holdOutputRegions(bound.responseForm, regions),
  };
}

/** Sends the one response of a model that is not decoupled. */
class SingleAnswer implements ResponseHandler {
  readonly #call: UnaryCall;
  readonly #prepared: PreparedInfer;
  readonly #regions: SharedMemoryRegistry;
  #response: InferenceResponse | undefined = undefined;
  #responseCount = 0;

  constructor(call: UnaryCall, prepared: PreparedInfer, regions: SharedMemoryRegistry) {
    this.#call = call;
    this.#prepared = prepared;
    this.#regions = regions;
  }

  respond(response: InferenceResponse): void {
    this.#response = response;
    this.#responseCount += 1;
  }

  complete(): void {
    const { form, model, regions } = this.#prepared;
    const response = this.#response;
    try {
      if (response === undefined || this.#responseCount !== 1) {
        throw internal(`expected a single response, got ${this.#responseCount}`);
      }
      this.#call.reply(encodeInferResponse(response, form, model, regions ?? this.#regions));
    } catch (thrown) {
      this.#call.fail(thrown);
    }
    regions?.release();
  }

  fail(error: InferenceServerError): void {
    this.#prepared.regions?.release();
    this.#call.fail(error);
  }
}

function withVersionAndParameters(
  request: InferenceRequest,
  modelVersion: string,
  forwarded: ReadonlyMap<string, string> | undefined,
): InferenceRequest {
  if (forwarded === undefined && modelVersion === request.modelVersion) return request;
  const parameters = new Map<string, ParameterValue>([...request.parameters, ...(forwarded ?? [])]);
  return { ...request, modelVersion, parameters };
}

function holdOutputRegions(
  form: ResponseForm,
  regions: SharedMemoryRegistry,
): HeldRegions | undefined {
  if (form.outputs.size === 0) return undefined;
  const names: string[] = [];
  for (const { sharedMemory } of form.outputs.values()) {
    if (sharedMemory !== undefined) names.push(sharedMemory.region);
  }
  return names.length === 0 ? undefined : regions.hold(names);
}
