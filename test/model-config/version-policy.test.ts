import { describe, expect, it } from 'vitest';
import { versionsToServe } from '../../src/model-config/version-policy.js';

const leadingZeros = (name: string) =>
  `ignore version directory '${name}' which contains leading zeros in its directory name`;
const notIntegral = (name: string) =>
  `ignore version directory '${name}' which fails to convert to integral number`;
const notPresent = (version: string) =>
  `version ${version} is specified, but the version directory is not present`;

describe('versionsToServe', () => {
  it.each([
    ['the latest by default', undefined, ['1', '3', '2'], ['3'], []],
    ['the latest by number, not by text', { latest: { num_versions: 1 } }, ['9', '10'], ['10'], []],
    ['the latest two', { latest: { num_versions: 2 } }, ['1', '3', '2'], ['2', '3'], []],
    [
      'all when more are wanted than there are',
      { latest: { num_versions: 9 } },
      ['2', '1'],
      ['1', '2'],
      [],
    ],
    ['none of the latest zero', { latest: { num_versions: 0 } }, ['1'], [], []],
    ['all', { all: {} }, ['10', '9'], ['9', '10'], []],
    ['all with an empty policy', {}, ['1', '2'], ['1', '2'], []],
    [
      'those specified, once each',
      { specific: { versions: [3, 1, 3] } },
      ['1', '2', '3'],
      ['1', '3'],
      [],
    ],
    [
      'those specified that are there',
      { specific: { versions: [1, 7] } },
      ['1', '2'],
      ['1'],
      [notPresent('7')],
    ],
    [
      'nothing when none specified is there',
      { specific: { versions: [7] } },
      ['1'],
      [],
      [notPresent('7')],
    ],
    ['version 0', undefined, ['0'], ['0'], []],
    ['the largest version', undefined, ['9223372036854775807', '1'], ['9223372036854775807'], []],
    [
      'no larger one',
      undefined,
      ['9223372036854775808', '1'],
      ['1'],
      [notIntegral('9223372036854775808')],
    ],
    [
      'no folder with leading zeros',
      { all: {} },
      ['001', '00', '2'],
      ['2'],
      [leadingZeros('001'), leadingZeros('00')],
    ],
    [
      'no folder of another name',
      { all: {} },
      ['abc', '-1', '1a', '2.0', '2'],
      ['2'],
      ['abc', '-1', '1a', '2.0'].map(notIntegral),
    ],
    [
      'nothing from folders of other uses',
      { all: {} },
      ['warmup', 'initial_state', 'configs', '1'],
      ['1'],
      [],
    ],
    ['nothing where there is nothing', undefined, [], [], []],
  ])('serves %s', (_what, policy, folders, versions, warnings) => {
    expect(versionsToServe(policy, folders)).toEqual({ versions, warnings });
  });
});
