import { readFile } from 'node:fs/promises';
import { invalidArg } from '../errors.js';
import { errorCode } from './model-folder.js';
import { canonicalS3Location, regionOfEndpoint, type S3Location } from './s3-location.js';

/** The process's environment, or a test's. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** How to ask a store: on whose behalf, where and in which region. Never to be logged. */
export interface S3Access {
  readonly identity: S3Identity;
  /** Undefined leaves AWS's own endpoint to the SDK. */
  readonly endpoint: string | undefined;
  /** Undefined leaves the region to the SDK, which knows profiles. */
  readonly region: string | undefined;
}

export type S3Identity =
  | {
      readonly kind: 'keys';
      readonly accessKeyId: string;
      readonly secretAccessKey: string;
      readonly sessionToken: string | undefined;
    }
  | { readonly kind: 'profile'; readonly profile: string }
  /** Profiles, web identity, container and instance roles, in the SDK's order. */
  | { readonly kind: 'chain' };

/** Where neither the user nor a host says it; stores other than AWS mostly do not care. */
const regionOfOtherStores = 'us-east-1';

/** The variable that names the credential file. */
export const credentialPathVariable = 'TRITON_CLOUD_CREDENTIAL_PATH';

/**
 * First match wins: the longest prefix of the location in the credential file, the environment's
 * key pair, the SDK's chain. Rejects with INVALID_ARG where the file is not usable; messages never
 * hold anything from it.
 */
export async function readS3Access(
  location: S3Location,
  environment: Environment,
): Promise<S3Access> {
  const path = setting(environment, credentialPathVariable);
  const entry = path === undefined ? undefined : await readEntry(path, location);
  const endpoint =
    location.endpoint ??
    setting(environment, 'AWS_ENDPOINT_URL_S3') ??
    setting(environment, 'AWS_ENDPOINT_URL');
  const region =
    entry?.region ??
    setting(environment, 'AWS_REGION') ??
    setting(environment, 'AWS_DEFAULT_REGION') ??
    (endpoint === undefined ? undefined : (regionOfEndpoint(endpoint) ?? regionOfOtherStores));
  return { identity: entry?.identity ?? identityFrom(environment), endpoint, region };
}

interface CredentialEntry {
  /** Undefined where the entry only gives a region. */
  readonly identity: S3Identity | undefined;
  readonly region: string | undefined;
}

function identityFrom(environment: Environment): S3Identity {
  const accessKeyId = setting(environment, 'AWS_ACCESS_KEY_ID');
  const secretAccessKey = setting(environment, 'AWS_SECRET_ACCESS_KEY');
  if (accessKeyId === undefined || secretAccessKey === undefined) {
    return { kind: 'chain' };
  }
  const sessionToken = setting(environment, 'AWS_SESSION_TOKEN');
  return { kind: 'keys', accessKeyId, secretAccessKey, sessionToken };
}

async function readEntry(path: string, location: S3Location): Promise<CredentialEntry | undefined> {
  const entries = await readCredentialFile(path);
  const here = `${canonicalS3Location(location)}/`;
  let longest: readonly [prefix: string, entry: unknown] | undefined;
  for (const [key, entry] of entries) {
    const prefix = normalizePrefix(key);
    const isMatch = prefix === '' || here.startsWith(`${prefix}/`);
    if (isMatch && (longest === undefined || prefix.length > longest[0].length)) {
      longest = [prefix, entry];
    }
  }
  return longest === undefined ? undefined : parseEntry(path, longest[0], longest[1]);
}

async function readCredentialFile(path: string): Promise<readonly (readonly [string, unknown])[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw invalidArg(
      `failed to read the credential file '${path}' of ${credentialPathVariable}: ${errorCode(error)}`,
      error,
    );
  }
  let document: unknown;
  try {
    document = JSON.parse(text);
  } catch {
    // The parser's message would repeat a part of the file, so it is not kept, not even as a cause.
    throw invalidArg(`the credential file '${path}' is not valid JSON`);
  }
  const stores = isRecord(document) ? document['s3'] : undefined;
  if (stores === undefined) {
    return [];
  }
  if (!isRecord(stores)) {
    throw invalidArg(`the credential file '${path}': 's3' must be an object`);
  }
  return Object.entries(stores);
}

/** A location as the file's author may have written it, in the form that locations are compared. */
function normalizePrefix(key: string): string {
  if (key === '') {
    return '';
  }
  const scheme = /^s3:\/\/(?:https?:\/\/)?/.exec(key)?.[0] ?? '';
  const rest = key.slice(scheme.length).replace(/\/+/g, '/').replace(/\/$/, '');
  const isHostForm = scheme === 's3://' && /^[^/:]+:[0-9]+(?:\/|$)/.test(rest);
  const [host = '', ...path] = rest.split('/');
  if (scheme === 's3://' && !isHostForm) {
    return `s3://${rest}`;
  }
  const origin = `${isHostForm ? 'http://' : scheme.slice('s3://'.length)}${host}`;
  const normal = URL.canParse(origin) ? new URL(origin).origin : origin;
  return ['s3:/', normal, ...path].join('/');
}

function parseEntry(path: string, prefix: string, entry: unknown): CredentialEntry {
  const where = `the credential file '${path}', entry "${prefix}"`;
  if (!isRecord(entry)) {
    throw invalidArg(`${where}: expected an object`);
  }
  const text = (name: string): string | undefined => {
    const value = entry[name];
    if (value === undefined || value === '') {
      return undefined;
    }
    if (typeof value !== 'string') {
      throw invalidArg(`${where}: '${name}' must be a string`);
    }
    return value;
  };
  const accessKeyId = text('key_id');
  const secretAccessKey = text('secret_key');
  const profile = text('profile');
  const region = text('region');
  if ((accessKeyId === undefined) !== (secretAccessKey === undefined)) {
    throw invalidArg(`${where}: 'key_id' and 'secret_key' must be given together`);
  }
  if (accessKeyId !== undefined && secretAccessKey !== undefined) {
    const sessionToken = text('session_token');
    return { identity: { kind: 'keys', accessKeyId, secretAccessKey, sessionToken }, region };
  }
  return { identity: profile === undefined ? undefined : { kind: 'profile', profile }, region };
}

function setting(environment: Environment, name: string): string | undefined {
  const value = environment[name];
  return value === '' ? undefined : value;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** All secrets of an identity, for removing them from texts that others wrote. */
export function secretsOf(identity: S3Identity): readonly string[] {
  if (identity.kind !== 'keys') {
    return [];
  }
  const { accessKeyId, secretAccessKey, sessionToken } = identity;
  return [accessKeyId, secretAccessKey, ...(sessionToken === undefined ? [] : [sessionToken])];
}
