import { invalidArg } from '../errors.js';

/** What the variable parts of a path name; '' where the path has no such part. */
export interface RouteTarget {
  readonly modelName: string;
  /** Decimal without leading zeros; '' is "by policy". */
  readonly modelVersion: string;
  readonly region: string;
  readonly repository: string;
}

const versionMax = 2n ** 63n - 1n;

/** Percent-decodes a segment once. What it may not hold could leave the repository or a log line. */
export function decodeSegment(kind: string, segment: string): string {
  let decoded: string;
  try {
    decoded = decodeURIComponent(segment);
  } catch {
    throw invalidArg(`${kind} name '${segment}' has a percent-escape that is not UTF-8`);
  }
  if (decoded === '.' || decoded === '..' || hasForbiddenCharacter(decoded)) {
    throw invalidArg(
      `${kind} name '${segment}' is not allowed: it must not be '.' or '..', nor hold a slash, a backslash or a control character`,
    );
  }
  return decoded;
}

/** Throws INVALID_ARG with the reference server's text for a version beyond 64 bits. */
export function normalizeVersion(digits: string): string {
  if (digits.length < 16) return String(Number(digits));
  const version = BigInt(digits);
  if (version <= versionMax) return String(version);
  throw invalidArg(
    `failed to get model version from specified version string '${digits}' (details: stol), version should be an integral value > 0`,
  );
}

function hasForbiddenCharacter(name: string): boolean {
  for (let index = 0; index < name.length; index += 1) {
    const code = name.charCodeAt(index);
    if (code < 0x20 || code === 0x7f || code === 0x2f || code === 0x5c) return true;
  }
  return false;
}
