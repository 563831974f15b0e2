import { internal, isErrorCode } from '../../errors.js';
import { thrownText, toErrorMessage } from '../../execution/error-transfer.js';
import type { ErrorMessage } from '../../execution/messages.js';
import type { ModelConfig } from '../../model-config/model-config.js';
import type {
  ExecutionRequest,
  ExecutionResponse,
  ExecutionResult,
  RequestsModelInstance,
} from '../backend.js';
import {
  fromGivenTensor,
  isRecord,
  type OutputRules,
  outputRules,
  toReceivedTensor,
  typeName,
} from './javascript-tensors.js';
import type { JavaScriptModel, ModelRequest, ModelResponse } from './model-contract.js';
import { fromModelParameters, toModelParameters } from './model-parameters.js';

/** An instance of a JavaScript model that works request by request. */
export class JavaScriptInstance implements RequestsModelInstance {
  readonly batchForm = 'requests';
  /** A model may keep what it was given. */
  readonly freesInputs = false;
  readonly isReady: (() => Promise<boolean>) | undefined;
  readonly #model: JavaScriptModel;
  readonly #instanceName: string;
  readonly #rules: OutputRules;
  readonly #isDecoupled: boolean;
  readonly #isGenerator: boolean;
  readonly #rescheduled = new WeakSet<ExecutionRequest>();

  constructor(model: JavaScriptModel, config: ModelConfig, instanceName: string) {
    this.#model = model;
    this.#instanceName = instanceName;
    this.#rules = outputRules(config);
    this.#isDecoupled = config.model_transaction_policy?.decoupled === true;
    this.#isGenerator = isGeneratorFunction(model.execute);
    if (typeof model.isReady === 'function') {
      // Anything but a boolean is no answer, and no answer is "not ready".
      this.isReady = async () => (await model.isReady?.()) === true;
    }
  }

  async execute(requests: readonly ExecutionRequest[]): Promise<readonly ExecutionResult[]> {
    const own = requests.map((request) => this.#toModelRequest(request));
    if (this.#isGenerator) {
      return Promise.all(
        requests.map((request, index) => {
          const one = own[index];
          return this.#stream(request, one === undefined ? [] : this.#callGenerator(one));
        }),
      );
    }
    const answers = await this.#callExecute(own);
    return Promise.all(requests.map((request, index) => this.#toResult(request, answers[index])));
  }

  async unload(): Promise<void> {
    await this.#model.finalize?.();
  }

  async #callExecute(requests: readonly ModelRequest[]): Promise<readonly unknown[]> {
    let answers: unknown;
    try {
      answers = await this.#model.execute(requests);
    } catch (error) {
      throw this.#failure(error);
    }
    // A decoupled model may have nothing to return: it sends.
    if (answers === undefined && this.#isDecoupled) return requests.map(() => undefined);
    if (!Array.isArray(answers)) {
      throw this.#failure(
        new Error(`execute must return a list of ${requests.length}, got ${typeName(answers)}`),
      );
    }
    if (answers.length !== requests.length) {
      throw this.#failure(
        new Error(
          `execute must return one entry a request, expected ${requests.length}, ` +
            `got ${answers.length}`,
        ),
      );
    }
    return answers;
  }

  #callGenerator(request: ModelRequest): AsyncIterable<unknown> | Iterable<unknown> {
    // Whether `execute` is a generator function was checked when the model was loaded.
    return this.#model.execute([request]) as AsyncIterable<unknown> | Iterable<unknown>;
  }

  async #toResult(request: ExecutionRequest, answer: unknown): Promise<ExecutionResult> {
    if (this.#rescheduled.has(request)) return this.#toRescheduled(answer);
    if (answer instanceof Error) return { type: 'error', error: this.#answeredError(answer) };
    if (this.#isDecoupled && answer === undefined) return { type: 'streamed' };
    if (isIterable(answer)) return this.#stream(request, answer);
    try {
      return { type: 'response', response: this.#toResponse(request, answer) };
    } catch (error) {
      return { type: 'error', error: toErrorMessage(error) };
    }
  }

  #toRescheduled(answer: unknown): ExecutionResult {
    if (answer === undefined) return { type: 'rescheduled' };
    const failure = this.#failure(
      new Error(`execute must give undefined for a rescheduled request, got ${typeName(answer)}`),
    );
    return { type: 'error', error: toErrorMessage(failure) };
  }

  /** Sends what `responses` gives, one after the other; the execution lasts as long. */
  async #stream(
    request: ExecutionRequest,
    responses: AsyncIterable<unknown> | Iterable<unknown>,
  ): Promise<ExecutionResult> {
    try {
      for await (const response of responses) {
        if (request.signal.aborted) break;
        if (response instanceof Error) {
          request.sendError(this.#answeredError(response));
          return { type: 'streamed' };
        }
        await request.send(this.#toResponse(request, response));
      }
      if (this.#rescheduled.has(request)) return { type: 'rescheduled' };
      request.end();
    } catch (error) {
      request.sendError(toErrorMessage(this.#failure(error)));
    }
    return { type: 'streamed' };
  }

  #toModelRequest(request: ExecutionRequest): ModelRequest {
    const inputs = request.inputs.map(toReceivedTensor);
    return {
      id: request.id,
      parameters: toModelParameters(request.parameters),
      inputs,
      getInput: (name) => inputs.find((input) => input.name === name),
      requestedOutputs: request.requestedOutputs,
      correlationId: request.correlationId,
      isSequenceStart: request.isSequenceStart,
      isSequenceEnd: request.isSequenceEnd,
      timeoutUs: request.timeoutUs,
      priority: request.priority,
      get signal() {
        return request.signal;
      },
      send: async (response: ModelResponse) => {
        await request.send(this.#toResponse(request, response));
      },
      end: (error?: Error) => {
        if (error === undefined) request.end();
        else request.sendError(this.#answeredError(error));
      },
      reschedule: () => {
        this.#rescheduled.add(request);
      },
    };
  }

  #toResponse(request: ExecutionRequest, answer: unknown): ExecutionResponse {
    const label = `model '${this.#rules.modelName}'`;
    if (!isRecord(answer) || !Array.isArray(answer['outputs'])) {
      const given = isRecord(answer) ? 'an object without `outputs`' : typeName(answer);
      throw internal(`${label}: a response must be { outputs: [...] } or an Error, got ${given}`);
    }
    // A decoupled model may give any number of rows at a time.
    const rows = this.#isDecoupled ? undefined : request.inputs[0]?.shape[0];
    const outputs = answer['outputs'].map((output: unknown) =>
      fromGivenTensor(output, this.#rules, rows),
    );
    return { outputs, parameters: fromModelParameters(answer['parameters'], label) };
  }

  /** An error that the model gave as an answer: its words are meant for the client. */
  #answeredError(error: Error): ErrorMessage {
    return toErrorMessage(error);
  }

  /** What the model threw, in the words in which the reference server reports it. */
  #failure(error: unknown): unknown {
    if (isRecord(error) && isErrorCode(error['code'])) return error;
    return internal(
      `Failed to process the request(s) for model '${this.#instanceName}', message: ` +
        (error instanceof Error ? `${error.name}: ${error.message}` : thrownText(error)),
      error,
    );
  }
}

function isGeneratorFunction(execute: JavaScriptModel['execute']): boolean {
  const kind = Object.prototype.toString.call(execute);
  return kind === '[object GeneratorFunction]' || kind === '[object AsyncGeneratorFunction]';
}

/** Responses one after another: a generator or another iterable, but not a plain response. */
function isIterable(answer: unknown): answer is AsyncIterable<unknown> | Iterable<unknown> {
  return isRecord(answer) && (Symbol.asyncIterator in answer || Symbol.iterator in answer);
}
