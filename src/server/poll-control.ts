import type { Clock } from '../clock.js';
import type { Logger } from '../observability/logger.js';
import type { ModelRepository } from '../repository/model-repository.js';
import { Poller, type PollReport } from '../repository/poller.js';
import type { ModelControl } from './model-control.js';
import type { RepositorySet } from './repository-set.js';

/** How often repositories are looked at. */
export interface PollControlOptions {
  /** `--repository-poll-secs`. */
  readonly intervalNs: number;
}

/** Mode poll: one poller a repository, each bringing model control to what has settled. */
export class PollControl {
  readonly #pollers: readonly Poller[];
  readonly #repositories: RepositorySet;
  readonly #control: ModelControl;
  readonly #logger: Logger;

  constructor(
    repositories: RepositorySet,
    control: ModelControl,
    options: PollControlOptions,
    clock: Clock,
    logger: Logger,
    onPolled: (repository: ModelRepository, report: PollReport) => void,
  ) {
    this.#repositories = repositories;
    this.#control = control;
    this.#logger = logger;
    const { intervalNs } = options;
    this.#pollers = repositories.repositories.map((repository) => {
      const listener = {
        changed: async (_diff: unknown, scan: ReturnType<RepositorySet['lastScanOf']>) => {
          this.#repositories.accept(repository, scan);
          void this.#control.reconcile();
        },
        polled: (report: PollReport) => {
          this.#onReport(repository, report);
          onPolled(repository, report);
        },
      };
      return new Poller(
        repository,
        repositories.lastScanOf(repository),
        { intervalNs, settleNs: Math.min(repository.settleNs, intervalNs) },
        listener,
        clock,
      );
    });
  }

  /** Where a watch cannot start, polls alone find the changes; a warning says so. */
  async start(): Promise<void> {
    await Promise.all(
      this.#pollers.map(async (poller) => {
        try {
          await poller.start();
        } catch (error) {
          const reason = error instanceof Error ? error.message : String(error);
          this.#logger.warning(`changes are found by polling alone: ${reason}`);
        }
      }),
    );
  }

  async close(): Promise<void> {
    await Promise.all(this.#pollers.map((poller) => poller.close()));
  }

  #onReport(repository: ModelRepository, { isRegular, outcome }: PollReport): void {
    if (outcome.kind === 'failed') {
      this.#logger.error(
        `poll of model repository '${repository.location}' failed, its models stay as they are: ${outcome.error.message}`,
      );
      return;
    }
    // What failed to load is tried again at every poll, as the reference server does.
    if (isRegular && outcome.kind === 'unchanged' && this.#control.hasFailures) {
      void this.#control.reconcile();
    }
  }
}
