/** A model that is in memory, or on its way there. */
interface Resident {
  isLoaded: boolean;
  /** Its load, and requests that run on it or on an ensemble over it. */
  holds: number;
  bytes: number;
}

/** How much may be in memory with `--model-control-mode=on-demand`. */
export interface ResidencyLimits {
  /** Models in memory at once; 0 is no limit. */
  readonly modelsMax: number;
  /** Their bytes together, as estimated; 0 is no limit. */
  readonly bytesMax: number;
}

/** What a model that wants to come in has to do first. */
export type RoomDecision =
  | { readonly type: 'enter' }
  | { readonly type: 'evict'; readonly victim: string }
  /** All that could go are at work. */
  | { readonly type: 'wait' };

/**
 * Which models are in memory, the least recently used first, and which of them has to go for
 * another. Models at work never go. A model larger than the limits enters when it is alone.
 */
export class ModelResidency {
  readonly #limits: ResidencyLimits;
  /** In the order of their last use: a `Map` keeps the order in which names are set. */
  readonly #residents = new Map<string, Resident>();

  constructor(limits: ResidencyLimits) {
    this.#limits = limits;
  }

  /** Loaded ones. */
  get names(): readonly string[] {
    return [...this.#residents.keys()].filter((name) => this.has(name));
  }

  has(name: string): boolean {
    return this.#residents.get(name)?.isLoaded === true;
  }

  /** `group`: a model and, where it is an ensemble, those that it needs. */
  admit(group: readonly string[], bytesOf: (name: string) => number): RoomDecision {
    const others = [...this.#residents].filter(([name]) => !group.includes(name));
    const models = others.length + group.length;
    const bytes =
      others.reduce((sum, [, resident]) => sum + resident.bytes, 0) +
      group.reduce((sum, name) => sum + bytesOf(name), 0);
    const { modelsMax, bytesMax } = this.#limits;
    const isOver = (modelsMax > 0 && models > modelsMax) || (bytesMax > 0 && bytes > bytesMax);
    if (!isOver || others.length === 0) return { type: 'enter' };
    const idle = others.find(([, { holds }]) => holds === 0);
    return idle === undefined ? { type: 'wait' } : { type: 'evict', victim: idle[0] };
  }

  /**
   * The group counts from now on, as the last one used, and stays. The result ends that: what has
   * not been loaded by then, and nobody else loads, leaves.
   */
  begin(group: readonly string[], bytesOf: (name: string) => number): () => void {
    for (const name of group) {
      if (!this.#residents.has(name)) {
        this.#residents.set(name, { isLoaded: false, holds: 0, bytes: bytesOf(name) });
      }
    }
    const release = this.hold(group);
    return () => {
      release();
      for (const name of group) {
        const resident = this.#residents.get(name);
        if (resident?.isLoaded === false && resident.holds === 0) this.#residents.delete(name);
      }
    };
  }

  /** The model is loaded. */
  enter(name: string, bytes: number): void {
    const resident = this.#residents.get(name);
    if (resident === undefined) {
      this.#residents.set(name, { isLoaded: true, holds: 0, bytes });
      return;
    }
    resident.isLoaded = true;
    resident.bytes = bytes;
  }

  leave(name: string): void {
    this.#residents.delete(name);
  }

  /** A request begins; the models are the last ones used. The result ends it; idempotent. */
  hold(group: readonly string[]): () => void {
    const held: Resident[] = [];
    for (const name of group) {
      const resident = this.#residents.get(name);
      if (resident === undefined) continue;
      resident.holds += 1;
      held.push(resident);
      this.#residents.delete(name);
      this.#residents.set(name, resident);
    }
    return () => {
      for (const resident of held.splice(0)) resident.holds -= 1;
    };
  }
}
