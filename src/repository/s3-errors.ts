import type { InferenceServerError } from '../errors.js';
import { errorCode } from './model-folder.js';
import { type S3Access, secretsOf } from './s3-credentials.js';
import type { S3Location } from './s3-location.js';
import { type StoreFailure, storeError } from './store-error.js';

/** What was asked for: `list` with a prefix, `get` with a key. */
export interface S3Call {
  readonly operation: 'list' | 'get';
  readonly key: string;
}

/** What the SDK's errors hold; all of it optional, as errors of the network hold none of it. */
interface AnswerFacts {
  readonly status: number | undefined;
  readonly requestId: string | undefined;
  readonly bucketRegion: string | undefined;
}

/**
 * One line that a person can act on: what was asked, where, what the store said. For example
 * `S3 list of 'models/' in bucket 'b' at http://127.0.0.1:9000, region us-east-1, failed: HTTP 403
 * SignatureDoesNotMatch: The request signature ... (request id 1234)`.
 */
export function describeS3Error(
  error: unknown,
  call: S3Call,
  location: S3Location,
  access: S3Access,
): InferenceServerError {
  const answer = answerFacts(error);
  const name = errorName(error);
  const text = withoutSecrets(error instanceof Error ? error.message : String(error), access);
  const asked = call.key === '' ? 'all objects' : `'${call.key}'`;
  const place =
    `bucket '${location.bucket}' at ${access.endpoint ?? 'AWS'}, ` +
    `region ${access.region ?? 'of the profile'}`;
  const said = [answer.status === undefined ? '' : `HTTP ${answer.status}`, name]
    .filter((part) => part !== '')
    .join(' ');
  const requestId = answer.requestId === undefined ? '' : ` (request id ${answer.requestId})`;
  const advice = adviceFor(name, text, answer, access);
  const message =
    `S3 ${call.operation} of ${asked} in ${place}, failed: ${said}` +
    `${text === '' || text === name ? '' : `: ${text}`}${requestId}${advice}`;
  // The SDK's error may hold the signed request, so it is not kept as the cause.
  const isAnswered = answer.status !== undefined || errorCode(error) === '';
  return storeError(isAnswered ? failureOf(call, answer.status, name) : 'unreachable', message);
}

/** Statuses that tell of the store's state and not of the request. */
const transientStatuses: ReadonlySet<number> = new Set([408, 429]);
/** Names of errors without an answer that are the network's fault, not the request's. */
const timeouts: ReadonlySet<string> = new Set(['AbortError', 'TimeoutError']);
/** Names of errors that some stores send with a status of their own. */
const refusals: ReadonlySet<string> = new Set([
  'AccessDenied',
  'CredentialsProviderError',
  'ExpiredToken',
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'TokenRefreshRequired',
  'XAdminUserNotFound',
]);

function failureOf(call: S3Call, status: number | undefined, name: string): StoreFailure {
  if (refusals.has(name)) {
    return 'refused';
  }
  if (status === undefined) {
    return timeouts.has(name) ? 'unreachable' : 'refused';
  }
  if (status === 412 || (status === 404 && call.operation === 'get' && name !== 'NoSuchBucket')) {
    return 'changed';
  }
  if (status === 404) {
    return 'missing';
  }
  return status >= 500 || transientStatuses.has(status) ? 'unreachable' : 'refused';
}

function adviceFor(name: string, text: string, answer: AnswerFacts, access: S3Access): string {
  if (answer.status === 301 || name === 'PermanentRedirect') {
    const region = answer.bucketRegion;
    return region === undefined
      ? '; the bucket is in another region: set AWS_REGION to it'
      : `; the bucket is in region '${region}', not '${access.region ?? ''}': set AWS_REGION=${region}`;
  }
  if (name === 'CredentialsProviderError') {
    return '; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the host a role';
  }
  if (name === 'EPROTO' && access.endpoint?.startsWith('https:') === true) {
    return '; if the store has no TLS, write s3://http:// in the location';
  }
  return text === 'Region is missing' ? '; set AWS_REGION' : '';
}

function errorName(error: unknown): string {
  const code = errorCode(error);
  if (code !== '') {
    return code;
  }
  return error instanceof Error ? error.name : 'Error';
}

function answerFacts(error: unknown): AnswerFacts {
  const metadata = field(error, '$metadata');
  const status = field(metadata, 'httpStatusCode');
  const requestId = field(metadata, 'requestId');
  const region = field(field(field(error, '$response'), 'headers'), 'x-amz-bucket-region');
  return {
    status: typeof status === 'number' ? status : undefined,
    requestId: typeof requestId === 'string' ? requestId : undefined,
    bucketRegion: typeof region === 'string' ? region : undefined,
  };
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined;
}

/** Shorter ones are for trying something out, and would be found within other words. */
const secretCharsMin = 4;

/** A store's message may repeat the key that was sent, and a proxy's may repeat anything. */
function withoutSecrets(text: string, access: S3Access): string {
  return secretsOf(access.identity)
    .filter((secret) => secret.length >= secretCharsMin)
    .reduce((cleaned, secret) => cleaned.replaceAll(secret, '***'), text);
}
