/** A model instance, as far as it takes part in calls between models. */
export interface CallingInstance {
  readonly name: string;
  /** It runs a batch, so that nothing else can run on it. */
  readonly isExecuting: boolean;
  /** Calls that the batch under way answers. */
  readonly answering: readonly ModelCall[];
}

/** A request of one model to another (business logic scripting). Compared by identity. */
export interface ModelCall {
  readonly caller: CallingInstance;
  readonly modelName: string;
  readonly modelVersion: string;
}
