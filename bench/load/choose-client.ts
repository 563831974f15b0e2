import { autocannonClient } from './autocannon-load.js';
import type { LoadClient } from './load-report.js';
import { isWrkInstalled, wrkClient } from './wrk-load.js';

/** The client of this name; without one, wrk where it is installed. */
export async function chooseClient(name: string | undefined): Promise<LoadClient> {
  if (name === 'autocannon') return autocannonClient;
  if (name === 'wrk' || (await isWrkInstalled())) return wrkClient;
  return autocannonClient;
}
