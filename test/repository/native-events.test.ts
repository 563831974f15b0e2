import { tmpdir } from 'node:os';
import { expect, it } from 'vitest';
import { hasNativeEvents, sendsEvents } from '../../src/repository/native-events.js';

it.each([
  ['ext4', 0xef53, true],
  ['XFS', 0x58465342, true],
  ['Btrfs', 0x9123683e, true],
  ['tmpfs', 0x01021994, true],
  ['the layers of a container', 0x794c7630, true],
  ['NFS', 0x6969, false],
  ['SMB', 0xfe534d42, false],
  ['SMB, as a negative number', 0xfe534d42 | 0, false],
  ['9P', 0x01021997, false],
  ['FUSE', 0x65735546, false],
])('knows whether %s sends events', (_, fileSystem, expected) => {
  expect(sendsEvents(fileSystem)).toBe(expected);
});

it('finds events on this disk', async () => {
  expect(await hasNativeEvents(tmpdir())).toBe(true);
});

it('rejects for a directory that is not there', async () => {
  await expect(hasNativeEvents('/no/such/directory')).rejects.toThrow('ENOENT');
});
