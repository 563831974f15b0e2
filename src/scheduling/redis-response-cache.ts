import { Redis } from 'ioredis';
import { decodeCachedResponse, encodeCachedResponse } from './cached-response-codec.js';
import type { CachedResponse, ResponseCache } from './response-cache.js';

/** Our entries among those of others. */
const keyPrefix = 'nereid:response:';
/** A cache that takes longer than this is not worth asking: the model is. */
const commandTimeoutMs = 200;
/** While the store is away, it is tried again this often at most. */
const reconnectDelayMsMax = 5000;

export interface RedisCacheOptions {
  readonly host: string;
  readonly port: number;
  /** '' is the store's default user. */
  readonly user: string;
  /** '' is none. */
  readonly password: string;
  readonly isTls: boolean;
}

/** What is used of a Redis client. */
export interface RedisStore {
  getBuffer(key: string): Promise<Buffer | null>;
  set(key: string, value: Buffer): Promise<unknown>;
  quit(): Promise<unknown>;
  /** Stops trying to connect. */
  disconnect(): void;
}

/** Hears of a store that goes away and comes back: once each, however many requests meet it. */
export interface StoreEvents {
  lost(error: unknown): void;
  found(): void;
}

/**
 * Answers shared by all replicas that use the same Redis; how many are kept, and which go first, is
 * up to its `maxmemory` and `maxmemory-policy`. While it is away, everything is a miss.
 */
export class RedisResponseCache implements ResponseCache {
  readonly #store: RedisStore;
  readonly #events: StoreEvents;
  #isAway = false;

  constructor(store: RedisStore, events: StoreEvents) {
    this.#store = store;
    this.#events = events;
  }

  async lookup(key: string): Promise<CachedResponse | undefined> {
    try {
      const block = await this.#store.getBuffer(keyPrefix + key);
      this.#answered();
      return block === null ? undefined : decodeCachedResponse(block);
    } catch (error) {
      this.failed(error);
      return undefined;
    }
  }

  insert(key: string, response: CachedResponse): void {
    // Nobody waits for an insertion, and a lost one costs an execution later.
    this.#store.set(keyPrefix + key, encodeCachedResponse(response)).then(
      () => this.#answered(),
      (error: unknown) => this.failed(error),
    );
  }

  /** Something did not work, a command or a connection. */
  failed(error: unknown): void {
    if (this.#isAway) return;
    this.#isAway = true;
    this.#events.lost(error);
  }

  async close(): Promise<void> {
    try {
      await this.#store.quit();
    } catch (error) {
      this.failed(error);
    } finally {
      this.#store.disconnect();
    }
  }

  #answered(): void {
    if (!this.#isAway) return;
    this.#isAway = false;
    this.#events.found();
  }
}

/** Connects in the background. */
export function connectRedis(options: RedisCacheOptions, events: StoreEvents): RedisResponseCache {
  const { host, port, user, password, isTls } = options;
  const client = new Redis({
    host,
    port,
    ...(user === '' ? {} : { username: user }),
    ...(password === '' ? {} : { password }),
    ...(isTls ? { tls: {} } : {}),
    commandTimeout: commandTimeoutMs,
    maxRetriesPerRequest: 0,
    // A command that would wait for a connection fails at once: it is a miss.
    enableOfflineQueue: false,
    retryStrategy: (attempt) => Math.min(attempt * 100, reconnectDelayMsMax),
  });
  const cache = new RedisResponseCache(client, events);
  client.on('error', (error: unknown) => cache.failed(error));
  return cache;
}
