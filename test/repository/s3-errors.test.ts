import { describe, expect, it } from 'vitest';
import type { S3Access } from '../../src/repository/s3-credentials.js';
import { describeS3Error, type S3Call } from '../../src/repository/s3-errors.js';
import { parseS3Location } from '../../src/repository/s3-location.js';
import { storeFailure } from '../../src/repository/store-error.js';

const location = parseS3Location('s3://host:9000/bucket/models');
const access: S3Access = {
  identity: {
    kind: 'keys',
    accessKeyId: 'AKIA-ID',
    secretAccessKey: 'the-secret',
    sessionToken: 'the-token',
  },
  endpoint: 'http://host:9000',
  region: 'us-east-1',
};
const list: S3Call = { operation: 'list', key: 'models/' };
const get: S3Call = { operation: 'get', key: 'models/m/1/model.onnx' };

/** An error as the SDK throws it. */
function answer(name: string, message: string, status: number | undefined, headers = {}): Error {
  const error = new Error(message);
  return Object.assign(error, {
    name,
    $metadata: { httpStatusCode: status, requestId: 'request-1' },
    $response: { headers },
  });
}

function broken(code: string): Error {
  return Object.assign(new Error(`connect ${code} 127.0.0.1:9000`), { code, $metadata: {} });
}

describe('describeS3Error', () => {
  it('names what was asked, where, and what the store said', () => {
    const error = answer('AccessDenied', 'Access Denied.', 403);
    expect(describeS3Error(error, list, location, access).message).toBe(
      "S3 list of 'models/' in bucket 'bucket' at http://host:9000, region us-east-1, failed: " +
        'HTTP 403 AccessDenied: Access Denied. (request id request-1)',
    );
  });

  it('says what is known where nothing answered', () => {
    const everything: S3Call = { operation: 'list', key: '' };
    const aws: S3Access = { ...access, endpoint: undefined, region: undefined };
    const error = describeS3Error(broken('ECONNREFUSED'), everything, location, aws);
    expect(error.message).toBe(
      "S3 list of all objects in bucket 'bucket' at AWS, region of the profile, failed: " +
        'ECONNREFUSED: connect ECONNREFUSED 127.0.0.1:9000',
    );
  });

  it.each([
    ['no answer', broken('ECONNRESET'), list, 'unreachable', 'UNAVAILABLE'],
    ['no name', broken('ENOTFOUND'), list, 'unreachable', 'UNAVAILABLE'],
    [
      'a time-out',
      answer('TimeoutError', 'timed out', undefined),
      list,
      'unreachable',
      'UNAVAILABLE',
    ],
    ['HTTP 500', answer('InternalError', 'x', 500), list, 'unreachable', 'UNAVAILABLE'],
    ['HTTP 503', answer('SlowDown', 'x', 503), get, 'unreachable', 'UNAVAILABLE'],
    ['HTTP 429', answer('TooManyRequests', 'x', 429), list, 'unreachable', 'UNAVAILABLE'],
    ['HTTP 403', answer('AccessDenied', 'x', 403), list, 'refused', 'INTERNAL'],
    ['HTTP 400', answer('InvalidRequest', 'x', 400), list, 'refused', 'INTERNAL'],
    ['no such user', answer('XAdminUserNotFound', 'x', 404), list, 'refused', 'INTERNAL'],
    [
      'no credentials',
      answer('CredentialsProviderError', 'x', undefined),
      list,
      'refused',
      'INTERNAL',
    ],
    ['a mistake of ours', new TypeError('x'), list, 'refused', 'INTERNAL'],
    ['no such bucket', answer('NoSuchBucket', 'x', 404), list, 'missing', 'NOT_FOUND'],
    ['no such bucket by get', answer('NoSuchBucket', 'x', 404), get, 'missing', 'NOT_FOUND'],
    ['no such key', answer('NoSuchKey', 'x', 404), get, 'changed', 'UNAVAILABLE'],
    ['another object', answer('PreconditionFailed', 'x', 412), get, 'changed', 'UNAVAILABLE'],
  ] as const)('tells the kind of failure: %s', (_name, error, call, failure, code) => {
    const described = describeS3Error(error, call, location, access);
    expect(described.code).toBe(code);
    expect(storeFailure(described)).toBe(failure);
  });

  it.each([
    [
      'the region of a redirect',
      answer('PermanentRedirect', 'x', 301, { 'x-amz-bucket-region': 'eu-west-1' }),
      "; the bucket is in region 'eu-west-1', not 'us-east-1': set AWS_REGION=eu-west-1",
    ],
    [
      'another region',
      answer('PermanentRedirect', 'x', 301),
      '; the bucket is in another region: set AWS_REGION to it',
    ],
    ['a region', new Error('Region is missing'), '; set AWS_REGION'],
    [
      'credentials',
      answer(
        'CredentialsProviderError',
        'Could not load credentials from any providers',
        undefined,
      ),
      '; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the host a role',
    ],
    [
      'a location without TLS',
      broken('EPROTO'),
      '; if the store has no TLS, write s3://http:// in the location',
    ],
  ])('advises to set %s', (_name, error, advice) => {
    const endpoint = 'https://host:9000';
    const { message } = describeS3Error(error, list, location, { ...access, endpoint });
    expect(message.endsWith(advice)).toBe(true);
  });

  it('never repeats a credential, nor keeps an error that may hold one', () => {
    const error = answer('X', 'AKIA-ID signed with the-secret and the-token, AKIA-ID', 403);
    const described = describeS3Error(error, list, location, access);
    expect(described.message).toContain(': *** signed with *** and ***, ***');
    expect(described.cause).toBeUndefined();
  });

  it.each([
    ['key', 'the key is wrong'],
    ['keys', 'the *** is wrong'],
  ])('takes %s for a secret only where it is long enough to be one', (accessKeyId, expected) => {
    const identity = {
      kind: 'keys',
      accessKeyId,
      secretAccessKey: 's',
      sessionToken: 't',
    } as const;
    const error = answer('X', `the ${accessKeyId} is wrong`, 403);
    const { message } = describeS3Error(error, list, location, { ...access, identity });
    expect(message).toContain(expected);
  });
});
