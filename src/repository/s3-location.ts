import { invalidArg } from '../errors.js';

/** Where a repository is in an S3 store. */
export interface S3Location {
  /** As the user wrote it. */
  readonly text: string;
  readonly bucket: string;
  /** Of every key in the repository: '' for the whole bucket, else it ends in `/`. */
  readonly prefix: string;
  /** `http://host:port` of a store other than AWS's own; undefined for AWS. */
  readonly endpoint: string | undefined;
}

const forms =
  's3://BUCKET/PREFIX, s3://HOST:PORT/BUCKET/PREFIX, s3://http://HOST:PORT/BUCKET/PREFIX ' +
  'or s3://https://HOST:PORT/BUCKET/PREFIX';

/**
 * Reads the forms that the reference server knows:
 *
 * | text                                  | endpoint                | bucket   | prefix    |
 * | ------------------------------------- | ----------------------- | -------- | --------- |
 * | `s3://bucket/models`                  | none, AWS               | `bucket` | `models/` |
 * | `s3://host:9000/bucket`               | `http://host:9000`      | `bucket` | none      |
 * | `s3://https://host:443/bucket/a//b/`  | `https://host`          | `bucket` | `a/b/`    |
 *
 * The host form is told from a bucket by its port. Doubled and trailing slashes do not count.
 * Throws INVALID_ARG; the text is not repeated where it holds a password.
 */
export function parseS3Location(text: string): S3Location {
  const body = /^s3:\/\/(.*)$/s.exec(text)?.[1];
  if (body === undefined) {
    throw invalidArg(`model repository '${text}' is not an S3 location; expected ${forms}`);
  }
  const withScheme = /^(https?):\/\/([^/]*)(.*)$/s.exec(body);
  const [first = '', ...others] = body.split('/');
  if (withScheme !== null) {
    const [, scheme = '', host = '', path = ''] = withScheme;
    return locate(text, `${scheme}://${host}`, path.split('/'));
  }
  if (/^(\[[0-9a-fA-F:.]+\]|[^:[\]@]+):[0-9]+$/.test(first)) {
    return locate(text, `http://${first}`, others);
  }
  if (first.includes('@')) {
    throw invalidArg(passwordMessage);
  }
  return locate(text, undefined, [first, ...others]);
}

const passwordMessage =
  'the location of an S3 model repository must not hold a user or password; use ' +
  'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a file named by TRITON_CLOUD_CREDENTIAL_PATH';

function locate(
  text: string,
  endpointText: string | undefined,
  segments: readonly string[],
): S3Location {
  const endpoint = endpointText === undefined ? undefined : parseEndpoint(text, endpointText);
  const [bucket, ...rest] = segments.filter((segment) => segment !== '');
  if (bucket === undefined) {
    throw invalidArg(`model repository '${text}' names no bucket; expected ${forms}`);
  }
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(bucket)) {
    throw invalidArg(`model repository '${text}': '${bucket}' cannot be the name of a bucket`);
  }
  if (rest.some((segment) => segment === '.' || segment === '..')) {
    throw invalidArg(`model repository '${text}': '.' and '..' mean nothing in a bucket`);
  }
  return { text, bucket, prefix: rest.length === 0 ? '' : `${rest.join('/')}/`, endpoint };
}

/** The endpoint in its normal form, so that two ways of writing one are equal. */
function parseEndpoint(text: string, endpoint: string): string {
  if (!URL.canParse(endpoint)) {
    throw invalidArg(`model repository '${text}' has no valid host and port; expected ${forms}`);
  }
  const url = new URL(endpoint);
  if (url.username !== '' || url.password !== '' || endpoint.includes('@')) {
    throw invalidArg(passwordMessage);
  }
  return url.origin;
}

/** One text for one place, however it was written. */
export function canonicalS3Location(location: S3Location): string {
  const host = location.endpoint === undefined ? '' : `${location.endpoint}/`;
  return `s3://${host}${location.bucket}/${location.prefix}`.replace(/\/$/, '');
}

/** The region in the name of one of AWS's own hosts; undefined for other stores. */
export function regionOfEndpoint(endpoint: string): string | undefined {
  const { hostname } = new URL(endpoint);
  return /(?:^|\.)s3[.-](?:dualstack\.)?([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$/.exec(hostname)?.[1];
}
