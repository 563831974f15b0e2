import { expect, it } from 'vitest';
import { failuresMax, RestartPolicy } from '../../src/execution/restart-policy.js';

function afterFailures(count: number): RestartPolicy {
  const policy = new RestartPolicy();
  for (let failure = 0; failure < count; failure += 1) policy.failed();
  return policy;
}

it.each([
  [0, 0],
  [1, 500e6],
  [2, 1e9],
  [failuresMax, 8e9],
  [failuresMax + 1, undefined],
])('after %i failures the next start comes in %s ns', (failures, delayNs) => {
  expect(afterFailures(failures).nextDelayNs()).toBe(delayNs);
});

it('forgets failures once the instance has worked', () => {
  const policy = afterFailures(failuresMax);
  policy.succeeded();
  expect(policy.nextDelayNs()).toBe(0);
  expect(policy.failures).toBe(0);
});
