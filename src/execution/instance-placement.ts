import type { ModelConfig } from '../model-config/model-config.js';
import type { InstancePlacement } from './model-instances.js';

/**
 * The instances that a configuration asks for, named as the reference server names them: the
 * group's name and the index within the group. KIND_GPU groups have `count` instances a device.
 * A configuration without groups has one instance.
 */
export function placeInstances(config: ModelConfig): readonly InstancePlacement[] {
  const placements: InstancePlacement[] = [];
  for (const group of config.instance_group) {
    const devices = group.gpus.length > 0 ? group.gpus : [0];
    for (let index = 0; index < Math.max(1, group.count); index += 1) {
      for (const deviceId of devices) {
        const suffix = group.gpus.length > 0 ? `_gpu${deviceId}` : '';
        placements.push({
          name: `${group.name === '' ? config.name : group.name}_${index}${suffix}`,
          kind: group.kind === '' ? 'KIND_AUTO' : group.kind,
          deviceId,
          isPassive: group.passive,
          resources: group.rate_limiter?.resources ?? [],
          priority: group.rate_limiter?.priority ?? 0,
        });
      }
    }
  }
  if (placements.length > 0) return placements;
  return [
    {
      name: `${config.name}_0`,
      kind: 'KIND_CPU',
      deviceId: 0,
      isPassive: false,
      resources: [],
      priority: 0,
    },
  ];
}
