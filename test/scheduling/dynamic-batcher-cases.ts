import { describe, expect, it } from 'vitest';
import {
  DynamicBatcher,
  type LookPolicy,
  lookAtOnce,
} from '../../src/scheduling/dynamic-batcher.js';
import {
  batchSizeOptions,
  type DynamicBatchingOptions,
  type QueuePolicy,
} from '../../src/scheduling/scheduling-options.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeExecutor } from '../support/fake-executor.js';
import { type Harness, lines, namesOf, play } from './timeline.js';

export interface Setting {
  readonly instances?: number;
  readonly aheadRowsMin?: number;
  readonly max?: number;
  readonly preferred?: readonly number[];
  readonly delayMs?: number;
  readonly levels?: readonly Partial<QueuePolicy>[];
  readonly defaultLevel?: number;
  readonly preservesOrdering?: boolean;
  readonly shaped?: readonly string[];
  readonly optional?: readonly string[];
  readonly gathers?: boolean;
}

export type Case = readonly [name: string, events: string, happens: string];

export function setUp(setting: Setting): Harness {
  const clock = new FakeClock();
  const executor = new FakeExecutor(setting.instances ?? 1, setting.aheadRowsMin);
  const options: DynamicBatchingOptions = {
    modelName: 'm',
    batch: batchSizeOptions(
      setting.max ?? 8,
      setting.preferred ?? [],
      (setting.delayMs ?? 0) * 1000,
    ),
    queue: {
      levels: (setting.levels ?? [{}]).map((policy) => ({
        timeoutAction: 'REJECT',
        defaultTimeoutUs: 0,
        allowsTimeoutOverride: false,
        queueSizeMax: 0,
        ...policy,
      })),
      defaultLevel: setting.defaultLevel ?? 0,
    },
    preservesOrdering: setting.preservesOrdering ?? false,
    shapedInputs: setting.shaped ?? [],
    optionalInputs: setting.optional ?? [],
    latencyTargetNs: 0,
  };
  const putOff: (() => void)[] = [];
  const gather: LookPolicy = (look) => {
    putOff.push(look);
  };
  const lookPolicy = setting.gathers === true ? gather : lookAtOnce;
  return {
    clock,
    executors: [executor],
    scheduler: new DynamicBatcher(options, executor, clock, lookPolicy),
    flushLooks: () => {
      for (const look of putOff.splice(0)) look();
    },
    showsAnswers: setting.preservesOrdering ?? false,
    describeBatch: namesOf,
  };
}

/** One test a row. */
export function cases(title: string, setting: Setting, table: readonly Case[]): void {
  describe(title, () => {
    it.each(table)('%s', (_, events, happens) => {
      expect(play(setUp(setting), events)).toEqual(lines(happens));
    });
  });
}
