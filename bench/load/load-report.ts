/** What one run of a load client measured. */
export interface LoadReport {
  readonly requestsPerSec: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
  readonly p99Ms: number;
  /** Answers that are not 200, broken connections and time-outs. */
  readonly errors: number;
}

/** A request that a client repeats on every connection. */
export interface LoadRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Closed loop: each of `concurrency` connections sends its next request after an answer. */
export interface LoadClient {
  readonly name: string;
  run(request: LoadRequest, concurrency: number, seconds: number): Promise<LoadReport>;
}
