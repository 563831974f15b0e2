import { describe, expect, it } from 'vitest';
import type { LookPolicy } from '../../src/scheduling/dynamic-batcher.js';
import type { PendingRequest } from '../../src/scheduling/pending-request.js';
import { batchSizeOptions } from '../../src/scheduling/scheduling-options.js';
import { SequenceBatcher } from '../../src/scheduling/sequence-batcher.js';
import type { SequenceOptions, SequenceStrategy } from '../../src/scheduling/sequence-options.js';
import { FakeClock } from '../support/fake-clock.js';
import { FakeExecutor } from '../support/fake-executor.js';
import { type Harness, lines, play } from './timeline.js';

export interface SequenceSetting {
  readonly strategy: SequenceStrategy;
  readonly instances?: number;
  readonly idleMs?: number;
  readonly shaped?: readonly string[];
  readonly isIterative?: boolean;
  readonly hasReady?: boolean;
  readonly isBatching?: boolean;
}

export const direct = (slots: number, slotUtilizationMin = 0, delayMs = 0): SequenceStrategy => ({
  kind: 'direct',
  slots,
  slotUtilizationMin,
  queueDelayNs: delayMs * 1e6,
});

export const oldest = (
  candidatesMax: number,
  max: number,
  preferred: readonly number[] = [],
  delayMs = 0,
  preservesOrdering = false,
): SequenceStrategy => ({
  kind: 'oldest',
  candidatesMax,
  batch: batchSizeOptions(max, preferred, delayMs * 1000),
  preservesOrdering,
});

const falseAndTrue = [Uint8Array.of(0), Uint8Array.of(1)] as const;

/** Batches read `a:S b c:E d:SE`, a null row `-`; `0|` in front names one of several instances. */
export function setUpSequences(setting: SequenceSetting): Harness {
  const clock = new FakeClock();
  const executors = Array.from({ length: setting.instances ?? 1 }, () => new FakeExecutor(1));
  const kinds = ['start', 'end', ...((setting.hasReady ?? true) ? ['ready'] : [])] as const;
  const options: SequenceOptions = {
    modelName: 'm',
    isBatching: setting.isBatching ?? true,
    strategy: setting.strategy,
    idleNs: (setting.idleMs ?? 1000) * 1e6,
    isIterative: setting.isIterative ?? false,
    controls: kinds.map((kind) => ({
      kind: kind as 'start' | 'end' | 'ready',
      name: kind,
      datatype: 'BOOL' as const,
      values: falseAndTrue,
    })),
    states: [],
    shapedInputs: setting.shaped ?? [],
    optionalInputs: [],
  };
  const putOff: (() => void)[] = [];
  const lookPolicy: LookPolicy = (look) => {
    putOff.push(look);
  };
  return {
    clock,
    executors,
    scheduler: new SequenceBatcher(options, executors, clock, lookPolicy, new Map()),
    flushLooks: () => {
      while (putOff.length > 0) putOff.shift()?.();
    },
    showsAnswers: setting.strategy.kind === 'oldest' && setting.strategy.preservesOrdering,
    describeBatch: (batch, executor) =>
      `${executors.length > 1 ? `${executor}|` : ''}${batch.map(describeRow).join(' ')}`,
  };
}

function describeRow({ request, modelInputs }: PendingRequest): string {
  const flag = (name: string) => modelInputs.find((input) => input.name === name)?.bytes[0] === 1;
  const hasReady = modelInputs.some((input) => input.name === 'ready');
  if (hasReady && !flag('ready')) return '-';
  const flags = `${flag('start') ? 'S' : ''}${flag('end') ? 'E' : ''}`;
  return flags === '' ? request.id : `${request.id}:${flags}`;
}

export type SequenceCase = readonly [name: string, events: string, happens: string];

export function sequenceCases(
  title: string,
  setting: SequenceSetting,
  table: readonly SequenceCase[],
): void {
  describe(title, () => {
    it.each(table)('%s', (_, events, happens) => {
      expect(play(setUpSequences(setting), events)).toEqual(lines(happens));
    });
  });
}
