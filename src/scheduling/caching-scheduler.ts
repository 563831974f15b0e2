import type { Clock } from '../clock.js';
import {
  cancelled,
  type InferenceServerError,
  toInferenceServerError,
  unavailable,
} from '../errors.js';
import type { InferenceResponse } from '../inference/infer-response.js';
import { type CachedModel, cacheKey } from './cache-key.js';
import { InFlightRequests } from './in-flight-requests.js';
import type { PendingRequest } from './pending-request.js';
import { type FailureOutcome, relayRequest } from './relayed-request.js';
import { requestIdPrefix } from './request-queue.js';
import type { CachedResponse, ResponseCache } from './response-cache.js';
import type { Scheduler } from './scheduler.js';

/** Counts what the cache did; durations in nanoseconds. */
export interface CacheRecorder {
  cacheHit(lookupNs: number): void;
  /** Look-up and insertion together. */
  cacheMiss(ns: number): void;
}

/** One execution that several identical requests wait for. */
interface Flight {
  readonly key: string;
  readonly flightKey: string;
  /** May settle before the flight lands: its client went away, its followers did not. */
  readonly leader: PendingRequest;
  readonly followers: Set<PendingRequest>;
  /** What runs in the leader's place; undefined while an outer cache is asked. */
  running: PendingRequest | undefined;
  lookupNs: number;
}

/*
 *   enqueue \ key | in the cache           | under way            | neither
 *   --------------+------------------------+----------------------+--------------------------------
 *                 | answer, CACHE_HIT      | wait as a follower   | become the leader: look up in
 *                 |                        |                      | an outer cache, else run
 *
 *   the leader …                    | followers …
 *   --------------------------------+-----------------------------------------------------------------
 *   answers                         | get the same answer, CACHE_HIT; it goes into the cache
 *   fails in the model              | fail alike: it was their execution too
 *   is timed out or refused         | go on: the first of them becomes the leader
 *   is cancelled                    | go on: the execution runs for them
 *
 *   Only requests of equal priority and timeout share a flight, so that none waits longer than alone.
 */

/** Puts a response cache in front of a model's scheduler. */
export class CachingScheduler implements Scheduler {
  readonly #inner: Scheduler;
  readonly #cache: ResponseCache;
  readonly #model: CachedModel;
  readonly #clock: Clock;
  readonly #recorder: CacheRecorder;
  readonly #inFlight = new InFlightRequests();
  readonly #flights = new Map<string, Flight>();
  /** Followers, and leaders that wait for an outer cache. */
  #waiting = 0;
  #isOpen = true;

  constructor(
    inner: Scheduler,
    cache: ResponseCache,
    model: CachedModel,
    clock: Clock,
    recorder: CacheRecorder,
  ) {
    this.#inner = inner;
    this.#cache = cache;
    this.#model = model;
    this.#clock = clock;
    this.#recorder = recorder;
  }

  get queuedRequests(): number {
    return this.#inner.queuedRequests + this.#waiting;
  }

  get inFlightRequests(): number {
    return this.#inFlight.count;
  }

  enqueue(pending: PendingRequest): void {
    if (!this.#isOpen) {
      throw unavailable(
        `${requestIdPrefix(pending)}model '${this.#model.modelName}' is stopping and takes no new requests`,
      );
    }
    const startNs = this.#clock.nowNs();
    const key = cacheKey(this.#model, pending);
    const { priority, timeoutUs } = pending.request;
    const flightKey = `${key}/${priority}/${timeoutUs}`;
    const flight = this.#flights.size > 0 ? this.#flights.get(flightKey) : undefined;
    if (flight !== undefined) {
      this.#inFlight.accept(pending);
      pending.timing.queueStartNs = startNs;
      this.#follow(flight, pending);
      return;
    }
    const found = this.#cache.lookup(key);
    const lookupNs = this.#clock.nowNs() - startNs;
    if (found === undefined) {
      this.#inFlight.accept(pending);
      const started = this.#openFlight(key, flightKey, pending, lookupNs);
      try {
        this.#run(started);
      } catch (error) {
        // Refused at the door: the caller still owns it.
        this.#flights.delete(flightKey);
        this.#inFlight.giveBack(pending);
        throw error;
      }
      return;
    }
    this.#inFlight.accept(pending);
    pending.timing.queueStartNs = startNs;
    if (!(found instanceof Promise)) {
      this.#answerFromCache(pending, found, lookupNs);
      return;
    }
    this.#awaitLookup(this.#openFlight(key, flightKey, pending, lookupNs), found, startNs);
  }

  /** The model's scheduler stays open until the end, for followers that have to run. */
  async drain(): Promise<void> {
    this.#isOpen = false;
    await this.#inFlight.whenEmpty();
    await this.#inner.drain();
  }

  destroy(): void {
    this.#isOpen = false;
    this.#inner.destroy();
  }

  #openFlight(key: string, flightKey: string, leader: PendingRequest, lookupNs: number): Flight {
    const flight: Flight = {
      key,
      flightKey,
      leader,
      followers: new Set(),
      running: undefined,
      lookupNs,
    };
    this.#flights.set(flightKey, flight);
    return flight;
  }

  #follow(flight: Flight, pending: PendingRequest): void {
    flight.followers.add(pending);
    this.#waiting += 1;
    pending.onCancel = () => {
      flight.followers.delete(pending);
      this.#waiting -= 1;
      pending.fail(cancelled('request was cancelled'), 'CANCELED');
      if (flight.leader.state === 'settled') this.#cancelIfUnwanted(flight);
    };
    if (pending.isCancelled) pending.onCancel();
  }

  #awaitLookup(flight: Flight, lookup: Promise<CachedResponse | undefined>, startNs: number): void {
    const { leader } = flight;
    this.#waiting += 1;
    leader.onCancel = () => {
      this.#waiting -= 1;
      leader.fail(cancelled('request was cancelled'), 'CANCELED');
    };
    const proceed = (found: CachedResponse | undefined): void => {
      flight.lookupNs = this.#clock.nowNs() - startNs;
      if (leader.state === 'settled') {
        if (found === undefined) this.#promote(flight);
        else this.#land(flight, found, undefined);
        return;
      }
      this.#waiting -= 1;
      leader.onCancel = undefined;
      if (found !== undefined) {
        this.#land(flight, found, undefined);
        this.#answerFromCache(leader, found, flight.lookupNs);
        return;
      }
      this.#runOrFail(flight);
    };
    // A cache that fails has not got it.
    void lookup.then(proceed, () => proceed(undefined));
  }

  /** Hands the leader to the model's scheduler; throws where that refuses it. */
  #run(flight: Flight): void {
    const { leader } = flight;
    let answer: InferenceResponse | undefined;
    const relayed = relayRequest(leader, leader.request, leader.modelInputs, {
      respond: (response) => {
        answer = response;
        if (leader.state !== 'settled') leader.respond(response);
      },
      complete: () => {
        if (answer !== undefined) this.#land(flight, answer, flight.key);
        else this.#flights.delete(flight.flightKey);
        if (leader.state !== 'settled') leader.complete();
      },
      fail: (error, outcome) => {
        if (outcome === 'CANCELED' || outcome === 'REJECTED' || outcome === 'REFUSED') {
          this.#promote(flight);
        } else {
          this.#failFollowers(flight, error, outcome);
        }
        if (leader.state !== 'settled') leader.fail(error, outcome);
      },
    });
    leader.onCancel = () => {
      if (flight.followers.size > 0) {
        leader.fail(cancelled('request was cancelled'), 'CANCELED');
      } else {
        this.#cancelIfUnwanted(flight);
      }
    };
    flight.running = relayed;
    this.#inner.enqueue(relayed);
  }

  #cancelIfUnwanted(flight: Flight): void {
    if (flight.followers.size === 0) flight.running?.cancel();
  }

  #runOrFail(flight: Flight): void {
    const { leader } = flight;
    try {
      this.#run(flight);
    } catch (error) {
      const failure = toInferenceServerError(error, 'the request could not be queued');
      this.#promote(flight);
      if (leader.state !== 'settled') leader.fail(failure, 'REFUSED');
    }
  }

  /** Ends the flight with an answer; `insertAs` is its key where it came from the model. */
  #land(flight: Flight, answer: CachedResponse, insertAs: string | undefined): void {
    this.#flights.delete(flight.flightKey);
    if (insertAs !== undefined) {
      const startNs = this.#clock.nowNs();
      this.#cache.insert(insertAs, answer);
      this.#recorder.cacheMiss(flight.lookupNs + this.#clock.nowNs() - startNs);
    }
    for (const follower of this.#takeFollowers(flight)) {
      this.#answerFromCache(follower, answer, flight.lookupNs);
    }
  }

  /** The leader is gone without a word on the answer: the next one runs. */
  #promote(flight: Flight): void {
    this.#flights.delete(flight.flightKey);
    const [next, ...others] = this.#takeFollowers(flight);
    if (next === undefined) return;
    const successor = this.#openFlight(flight.key, flight.flightKey, next, flight.lookupNs);
    for (const other of others) this.#follow(successor, other);
    this.#runOrFail(successor);
  }

  #failFollowers(flight: Flight, error: InferenceServerError, outcome: FailureOutcome): void {
    this.#flights.delete(flight.flightKey);
    for (const follower of this.#takeFollowers(flight)) follower.fail(error, outcome);
  }

  #takeFollowers(flight: Flight): readonly PendingRequest[] {
    const followers = [...flight.followers];
    flight.followers.clear();
    this.#waiting -= followers.length;
    for (const follower of followers) follower.onCancel = undefined;
    return followers;
  }

  #answerFromCache(pending: PendingRequest, found: CachedResponse, lookupNs: number): void {
    if (pending.isCancelled) {
      pending.fail(cancelled('request was cancelled'), 'CANCELED');
      return;
    }
    const { modelName, modelVersion } = this.#model;
    this.#recorder.cacheHit(lookupNs);
    pending.respond({
      modelName,
      modelVersion,
      id: pending.request.id,
      parameters: found.parameters,
      outputs: found.outputs,
    });
    pending.complete('CACHE_HIT');
  }
}
