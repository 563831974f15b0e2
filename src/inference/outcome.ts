/** How a request ended: the reasons of `nv_inference_request_failure`, and three more. */
export type Outcome =
  | 'SUCCESS'
  /** Answered from the response cache: counted as a success, not as an inference. */
  | 'CACHE_HIT'
  /** Timed out in the queue. */
  | 'REJECTED'
  | 'CANCELED'
  /** The model or its instance failed. */
  | 'BACKEND'
  | 'OTHER'
  /** Refused before it was queued: counted by no `nv_` series. */
  | 'REFUSED';
