import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/** Seen from src/backends/python, and from its compiled form: Python files are not compiled. */
const relativePaths = ['../../../workers/python/host.py', '../../../../workers/python/host.py'];

/** The program that hosts a Python model, which lies in the package's own folder. */
export function findHostFile(): string {
  const candidates = relativePaths.map((relative) =>
    fileURLToPath(new URL(relative, import.meta.url)),
  );
  const found = candidates.find((candidate) => existsSync(candidate));
  if (found === undefined) throw new Error(`host.py is missing: ${candidates.join(', ')}`);
  return found;
}
