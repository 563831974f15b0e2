import { invalidArg } from '../errors.js';
import { tensorrtPlatform } from './backend-table.js';
import type { ModelConfig, ModelInstanceGroup } from './model-config.js';

/**
 * Instances of one model, over all its groups. Each is a thread with an engine of its own, some ten
 * megabytes at least: a count beyond this is a slip, or meant to exhaust the machine.
 */
const instancesMax = 1024;

/** Checks instance groups; part of `validateModelConfig`, with the reference server's texts. */
export function validateInstanceGroups(config: ModelConfig): void {
  if (config.ensemble_scheduling !== undefined) return;
  if (config.instance_group.length === 0) {
    throw invalidArg(`must specify one or more 'instance group's for ${config.name}`);
  }
  let instances = 0;
  for (const group of config.instance_group) {
    instances += group.count;
    if (instances > instancesMax) {
      throw invalidArg(
        `instance groups of model ${config.name} ask for more than ${instancesMax} instances`,
      );
    }
    const problem = instanceGroupProblem(group, config);
    if (problem !== undefined) {
      throw invalidArg(`instance group ${group.name} of model ${config.name} ${problem}`);
    }
  }
}

function instanceGroupProblem(group: ModelInstanceGroup, config: ModelConfig): string | undefined {
  if (group.kind === 'KIND_GPU') return 'has kind KIND_GPU but no GPUs are available';
  if (group.gpus.length > 0) return `has kind ${group.kind} but specifies one or more GPUs`;
  if (group.profile.length > 0 && config.platform !== tensorrtPlatform) {
    // The missing space is the reference server's.
    return (
      `and platform ${config.platform}specifies profile field which is only supported for ` +
      'TensorRT models'
    );
  }
  return undefined;
}
