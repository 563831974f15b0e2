import type { MetricUpdate } from '../../execution/messages.js';
import type { Tensor } from '../../inference/tensor.js';
import type { ExecutionResponse, InstanceHostApi, ModelCall } from '../backend.js';
import { fromCallTensor, toReceivedTensor } from './javascript-tensors.js';
import type { ModelHost, ModelInferCall, ModelInferResponse } from './model-contract.js';
import { fromModelParameters, toModelParameters } from './model-parameters.js';

type CalledResponse = ExecutionResponse & {
  readonly modelName: string;
  readonly modelVersion: string;
};

/** The server as a model's author sees it. */
export function createModelHost(api: InstanceHostApi): ModelHost {
  return {
    async infer(call) {
      const responses: CalledResponse[] = [];
      await api.infer(toCall(call, false), (response) => responses.push(response), signalOf(call));
      const [response] = responses;
      if (response === undefined) throw new Error(`model '${call.modelName}' gave no response`);
      return toInferResponse(response);
    },
    stream: (call) => streamCall(api, call),
    loadModel: (name, config, files) => api.loadModel(name, config, Object.entries(files ?? {})),
    unloadModel: (name) => api.unloadModel(name),
    isModelReady: (name, version = '') => api.isModelReady(name, String(version)),
    log: {
      error: (message) => api.log('error', String(message)),
      warning: (message) => api.log('warning', String(message)),
      info: (message) => api.log('info', String(message)),
      verbose: (message) => {
        if (api.logVerboseLevel() > 0) api.log('verbose', String(message));
      },
    },
    metrics: createMetrics((update) => api.updateMetric(update)),
  };
}

/** Hands over what has come, waits for the next, ends or throws as the call does. */
async function* streamCall(
  api: InstanceHostApi,
  call: ModelInferCall,
): AsyncGenerator<ModelInferResponse> {
  const ready: CalledResponse[] = [];
  const stop = new AbortController();
  const signal = AbortSignal.any([signalOf(call), stop.signal]);
  let hasEnded = false;
  let failure: unknown;
  let wake: () => void = () => {};
  const ended = api
    .infer(
      toCall(call, true),
      (response) => {
        ready.push(response);
        wake();
      },
      signal,
    )
    .catch((error: unknown) => {
      failure = error;
    })
    .finally(() => {
      hasEnded = true;
      wake();
    });
  try {
    for (;;) {
      const response = ready.shift();
      if (response !== undefined) yield toInferResponse(response);
      else if (hasEnded) break;
      else {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    }
  } finally {
    // The reader may have left early: the called model need not go on.
    if (!hasEnded) stop.abort();
  }
  await ended;
  if (failure !== undefined) throw failure;
}

function toCall(call: ModelInferCall, isDecoupled: boolean): ModelCall {
  return {
    modelName: call.modelName,
    modelVersion: String(call.modelVersion ?? ''),
    isDecoupled,
    id: call.id ?? '',
    parameters: fromModelParameters(call.parameters, `call of model '${call.modelName}'`),
    timeoutUs: call.timeoutUs ?? 0,
    priority: call.priority ?? 0,
    requestedOutputs: call.requestedOutputs ?? [],
    inputs: call.inputs.map(fromCallTensor),
    correlationId: call.correlationId ?? 0n,
    isSequenceStart: call.isSequenceStart ?? false,
    isSequenceEnd: call.isSequenceEnd ?? false,
  };
}

function signalOf(call: ModelInferCall): AbortSignal {
  return call.signal ?? new AbortController().signal;
}

function toInferResponse(response: CalledResponse): ModelInferResponse {
  const outputs = response.outputs.map((output: Tensor) => toReceivedTensor(output));
  return {
    modelName: response.modelName,
    modelVersion: response.modelVersion,
    outputs,
    getOutput: (name) => outputs.find((output) => output.name === name),
    parameters: toModelParameters(response.parameters),
  };
}

type UpdateMetric = (update: MetricUpdate) => void;
type Labels = Readonly<Record<string, string>>;

function createMetrics(update: UpdateMetric): ModelHost['metrics'] {
  const value = (
    family: string,
    labels: Labels,
    action: 'increment' | 'set' | 'observe',
    amount: number,
  ): void => update({ type: 'value', family, labels, action, value: amount });
  return {
    counter(name, help) {
      update({ type: 'family', name, help, kind: 'counter' });
      return { increment: (amount = 1, labels = {}) => value(name, labels, 'increment', amount) };
    },
    gauge(name, help) {
      update({ type: 'family', name, help, kind: 'gauge' });
      return {
        increment: (amount = 1, labels = {}) => value(name, labels, 'increment', amount),
        set: (amount, labels = {}) => value(name, labels, 'set', amount),
      };
    },
    histogram(name, help, buckets) {
      update({ type: 'family', name, help, kind: 'histogram' });
      // A series is announced with its buckets before its first value.
      const announced = new Set<string>();
      return {
        observe(amount, labels = {}) {
          const key = JSON.stringify(labels);
          if (!announced.has(key)) {
            announced.add(key);
            update({ type: 'series', family: name, labels, buckets });
          }
          value(name, labels, 'observe', amount);
        },
      };
    },
  };
}
