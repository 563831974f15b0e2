import { internal, invalidArg } from '../errors.js';

/** A resource that the operator limits; `device` undefined is every device, or the global one. */
export interface ResourceLimit {
  readonly name: string;
  readonly count: number;
  readonly device: number | undefined;
}

/** What an instance takes for the time of one execution. */
export interface ResourceNeed {
  readonly name: string;
  /** One pool for the server, instead of one for each device. */
  readonly isGlobal: boolean;
  readonly count: number;
}

export interface InstanceNeeds {
  readonly deviceId: number;
  readonly resources: readonly ResourceNeed[];
  /** At least 1; an instance of priority 2 is chosen half as often as one of priority 1. */
  readonly priority: number;
}

interface Pool {
  readonly name: string;
  /** Undefined where the largest single need is the limit. */
  readonly explicitCount: number | undefined;
  used: number;
}

interface Claim {
  readonly pool: Pool;
  readonly count: number;
}

/*
 *   state of a ticket    | canRun                        | start     | end
 *   ---------------------+-------------------------------+-----------+--------------------------------
 *   idle                 | true, or false → waiting      | → running | -
 *   waiting              | true, or false                | → running | -
 *   running              | false                         | -         | → waiting; all waiting are asked
 *
 *   A ticket may not run past a waiting one of a lower score that needs the same resource: else an
 *   instance with a large need would never find all of it free. The score is executions × priority.
 *   Asking takes the mark off: who still has work asks again, and is waiting again.
 */

/** Shares named resources among the instances of all models (`--rate-limit=execution_count`). */
export class RateLimiter {
  readonly #limits: readonly ResourceLimit[];
  readonly #pools = new Map<string, Pool>();
  readonly #tickets = new Set<RateTicket>();
  readonly #waiting = new Set<RateTicket>();

  constructor(limits: readonly ResourceLimit[]) {
    this.#limits = limits;
  }

  /**
   * Admits an instance; `onAvailable` is called when it may be worth asking `canRun` again. Throws
   * INVALID_ARG where its needs can never be met, or name a resource as both kinds.
   */
  register(needs: InstanceNeeds, onAvailable: () => void): RateTicket {
    for (const need of needs.resources) this.#check(need, needs.deviceId);
    const claims = needs.resources.map((need) => ({
      pool: this.#poolFor(need, needs.deviceId),
      count: need.count,
    }));
    const ticket = new RateTicket(this, claims, Math.max(1, needs.priority), onAvailable);
    this.#tickets.add(ticket);
    return ticket;
  }

  /** @internal of {@link RateTicket}, as are the methods below. */
  canRun(ticket: RateTicket): boolean {
    const isFree = ticket.claims.every(
      ({ pool, count }) => pool.used + count <= this.#countOf(pool),
    );
    if (isFree && !this.#isOvertaking(ticket)) return true;
    this.#waiting.add(ticket);
    return false;
  }

  start(ticket: RateTicket): void {
    this.#waiting.delete(ticket);
    for (const { pool, count } of ticket.claims) {
      pool.used += count;
      if (pool.used > this.#countOf(pool)) {
        throw internal(`resource '${pool.name}' is used beyond its limit; this is a bug`);
      }
    }
  }

  /** The ticket that ends is asked too, in its turn. */
  end(ticket: RateTicket): void {
    for (const { pool, count } of ticket.claims) pool.used -= count;
    this.#waiting.add(ticket);
    this.#ask();
  }

  remove(ticket: RateTicket, isRunning: boolean): void {
    if (!this.#tickets.delete(ticket)) return;
    this.#waiting.delete(ticket);
    if (isRunning) for (const { pool, count } of ticket.claims) pool.used -= count;
    this.#ask();
  }

  /** The one that was chosen least for its priority is asked first. */
  #ask(): void {
    const waiting = [...this.#waiting].sort((left, right) => left.score - right.score);
    for (const ticket of waiting) {
      this.#waiting.delete(ticket);
      ticket.onAvailable();
    }
  }

  #isOvertaking(ticket: RateTicket): boolean {
    for (const other of this.#waiting) {
      if (other === ticket || other.score >= ticket.score) continue;
      if (other.claims.some((claim) => ticket.claims.some(({ pool }) => pool === claim.pool))) {
        return true;
      }
    }
    return false;
  }

  #countOf(pool: Pool): number {
    if (pool.explicitCount !== undefined) return pool.explicitCount;
    let largest = 0;
    for (const { claims } of this.#tickets) {
      for (const claim of claims) {
        if (claim.pool === pool && claim.count > largest) largest = claim.count;
      }
    }
    return largest;
  }

  #check(need: ResourceNeed, deviceId: number): void {
    const { name, count, isGlobal } = need;
    const otherKind = isGlobal ? `device/` : `global/`;
    for (const [key, pool] of this.#pools) {
      if (pool.name === resourceName(name) && key.startsWith(otherKind)) {
        throw invalidArg(
          `Resource "${resourceName(name)}" is present as both global and device-specific resource in the model configuration.`,
        );
      }
    }
    const limit = this.#limitOf(need, deviceId);
    if (limit !== undefined && limit < count) {
      throw invalidArg(
        `Resource count for "${resourceName(name)}" is limited to ${limit} which will prevent scheduling of one or more model instances, the minimum required count is ${count}`,
      );
    }
  }

  #poolFor(need: ResourceNeed, deviceId: number): Pool {
    const name = resourceName(need.name);
    const key = need.isGlobal ? `global/${name}` : `device/${deviceId}/${name}`;
    const known = this.#pools.get(key);
    if (known !== undefined) return known;
    const pool: Pool = { name, explicitCount: this.#limitOf(need, deviceId), used: 0 };
    this.#pools.set(key, pool);
    return pool;
  }

  /** A limit for the very device goes before one for all. */
  #limitOf({ name, isGlobal }: ResourceNeed, deviceId: number): number | undefined {
    const limits = this.#limits.filter((limit) => resourceName(limit.name) === resourceName(name));
    const own = isGlobal ? undefined : limits.find(({ device }) => device === deviceId);
    return (own ?? limits.find(({ device }) => device === undefined))?.count;
  }
}

/** The place of one instance in the rate limiter. One execution at a time. */
export class RateTicket {
  readonly claims: readonly Claim[];
  readonly onAvailable: () => void;
  readonly #limiter: RateLimiter;
  readonly #priority: number;
  #executions = 0;
  #isRunning = false;

  constructor(
    limiter: RateLimiter,
    claims: readonly Claim[],
    priority: number,
    onAvailable: () => void,
  ) {
    this.#limiter = limiter;
    this.claims = claims;
    this.#priority = priority;
    this.onAvailable = onAvailable;
  }

  get score(): number {
    return this.#executions * this.#priority;
  }

  /** Whether it may start now; a "no" is remembered, and `onAvailable` called when that changes. */
  canRun(): boolean {
    return !this.#isRunning && this.#limiter.canRun(this);
  }

  /** Takes its resources; only after `canRun` said so. */
  start(): void {
    this.#limiter.start(this);
    this.#executions += 1;
    this.#isRunning = true;
  }

  /** Gives them back, and asks all that wait, itself among them, in the order of their scores. */
  end(): void {
    if (!this.#isRunning) {
      this.onAvailable();
      return;
    }
    this.#isRunning = false;
    this.#limiter.end(this);
  }

  /** The instance is gone. Idempotent. */
  remove(): void {
    this.#limiter.remove(this, this.#isRunning);
    this.#isRunning = false;
  }
}

/** Names are one whatever their case, as on the command line. */
function resourceName(name: string): string {
  return name.toLowerCase();
}
