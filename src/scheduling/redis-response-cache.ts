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

/**
 * Answers shared by all replicas that use the same Redis; how many are kept, and which go first, is
 * up to its `maxmemory` and `maxmemory-policy`. While it is away, everything is a miss.
 */
export class RedisResponseCache implements ResponseCache {
  readonly #store: RedisStore;
  readonly #onTrouble: (error: unknown) => void;

  constructor(store: RedisStore, onTrouble: (error: unknown) => void) {
    this.#store = store;
    this.#onTrouble = onTrouble;
  }

  async lookup(key: string): Promise<CachedResponse | undefined> {
    try {
      const block = await this.#store.getBuffer(keyPrefix + key);
      return block === null ? undefined : decodeCachedResponse(block);
    } catch (error) {
      this.#onTrouble(error);
      return undefined;
    }
  }

  insert(key: string, response: CachedResponse): void {
    // Nobody waits for an insertion, and a lost one costs an execution later.
    void this.#store
      .set(keyPrefix + key, encodeCachedResponse(response))
      .catch((error: unknown) => this.#onTrouble(error));
  }

  async close(): Promise<void> {
    try {
      await this.#store.quit();
    } catch (error) {
      this.#onTrouble(error);
    } finally {
      this.#store.disconnect();
    }
  }
}

/**
 * Connects in the background; `onTrouble` hears of every failure, which may be many while the store
 * is away.
 */
export function connectRedis(
  options: RedisCacheOptions,
  onTrouble: (error: unknown) => void,
): RedisResponseCache {
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
  client.on('error', onTrouble);
  return new RedisResponseCache(client, onTrouble);
}
