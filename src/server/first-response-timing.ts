import type { Clock } from '../clock.js';
import type { ResponseHandler } from '../inference/infer-response.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { FirstResponses, firstResponseFamily } from '../observability/first-responses.js';

/** Bounds of the reference server, where a model's configuration gives none. */
const defaultBoundsMs: readonly number[] = [100, 500, 2000, 5000];

/** Measures how long the requests of a decoupled model wait for their first response. */
export class FirstResponseTiming {
  readonly responses: FirstResponses;
  readonly #clock: Clock;

  constructor({ model_metrics }: ModelConfig, clock: Clock) {
    const own = model_metrics?.metric_control.find(
      ({ metric_identifier }) => metric_identifier?.family === firstResponseFamily,
    );
    this.responses = new FirstResponses(own?.histogram_options?.buckets ?? defaultBoundsMs);
    this.#clock = clock;
  }

  /** `handler`, with the first of its responses measured. */
  measure(handler: ResponseHandler, requestStartNs: number): ResponseHandler {
    let isFirst = true;
    return {
      respond: (response) => {
        if (isFirst) this.responses.record(this.#clock.nowNs() - requestStartNs);
        isFirst = false;
        handler.respond(response);
      },
      complete: () => handler.complete(),
      fail: (error) => handler.fail(error),
    };
  }
}
