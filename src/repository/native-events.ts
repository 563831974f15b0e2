import { statfs } from 'node:fs/promises';

/**
 * File systems whose contents others change without this kernel hearing of it, by the numbers that
 * Linux gives them (statfs(2)). Shares of container desktops are FUSE or 9P.
 */
const remoteFileSystems: ReadonlySet<number> = new Set([
  0x6969, // NFS
  0x517b, // SMB
  0xfe534d42, // SMB 2 and 3
  0xff534d42, // CIFS
  0x01021997, // 9P
  0x65735546, // FUSE, also virtiofs
  0x00c36400, // Ceph
  0x0bd00bd0, // Lustre
  0x47504653, // GPFS
  0x5346414f, // AFS
  0x786f4256, // shared folders of VirtualBox
]);

/** False for the number of a file system from which no notifications of changes can be expected. */
export function sendsEvents(fileSystem: number): boolean {
  // The upper half of these numbers has been reported as negative.
  return !remoteFileSystems.has(fileSystem >>> 0);
}

/** Whether changes below a directory are notified. Only Linux tells its file systems apart so. */
export async function hasNativeEvents(directory: string): Promise<boolean> {
  if (process.platform !== 'linux') {
    return true;
  }
  return sendsEvents((await statfs(directory)).type);
}
