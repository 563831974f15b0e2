import { expect, it } from 'vitest';
import { placeInstances } from '../../src/execution/instance-placement.js';
import { modelConfig } from '../support/model-configs.js';
import { instanceGroup } from '../support/running-instances.js';

const placed = (...groups: ReturnType<typeof instanceGroup>[]) =>
  placeInstances(modelConfig({ instance_group: groups }));

it('names instances after their group and their index in it', () => {
  const placements = placed(instanceGroup(2, { name: 'm_0' }), instanceGroup(1, { name: 'x' }));
  expect(placements.map(({ name }) => name)).toEqual(['m_0_0', 'm_0_1', 'x_0']);
});

it('puts as many as the count on each device of a group', () => {
  const placements = placed(instanceGroup(2, { kind: 'KIND_GPU', gpus: [0, 3] }));
  expect(placements.map(({ name, deviceId }) => [name, deviceId])).toEqual([
    ['m_0_gpu0', 0],
    ['m_0_gpu3', 3],
    ['m_1_gpu0', 0],
    ['m_1_gpu3', 3],
  ]);
});

it('reads a count of 0 as 1, and no group as one instance', () => {
  expect(placed(instanceGroup(0))).toHaveLength(1);
  expect(placed().map(({ name, kind }) => [name, kind])).toEqual([['m_0', 'KIND_CPU']]);
});

it('marks the instances of passive groups', () => {
  const placements = placed(instanceGroup(1), instanceGroup(1, { passive: true }));
  expect(placements.map(({ isPassive }) => isPassive)).toEqual([false, true]);
});
