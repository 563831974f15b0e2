import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readS3Access, secretsOf } from '../../src/repository/s3-credentials.js';
import { parseS3Location } from '../../src/repository/s3-location.js';
import { ScratchFolder } from './model-files.js';

let scratch: ScratchFolder;

beforeEach(async () => {
  scratch = await ScratchFolder.create();
});

afterEach(() => scratch.remove());

function read(location: string, environment: Readonly<Record<string, string>>) {
  return readS3Access(parseS3Location(location), environment);
}

async function readWithFile(location: string, document: unknown) {
  const text = typeof document === 'string' ? document : JSON.stringify(document);
  await scratch.write({ 'credentials.json': text });
  return read(location, {
    TRITON_CLOUD_CREDENTIAL_PATH: join(scratch.path, 'credentials.json'),
    AWS_ACCESS_KEY_ID: 'from-environment',
    AWS_SECRET_ACCESS_KEY: 'secret',
  });
}

function entry(id: string) {
  return { key_id: id, secret_key: `${id}-secret` };
}

describe('readS3Access', () => {
  it('takes the key pair of the environment', async () => {
    const access = await read('s3://bucket', {
      AWS_ACCESS_KEY_ID: 'id',
      AWS_SECRET_ACCESS_KEY: 'secret',
      AWS_SESSION_TOKEN: 'token',
    });
    expect(access).toEqual({
      identity: {
        kind: 'keys',
        accessKeyId: 'id',
        secretAccessKey: 'secret',
        sessionToken: 'token',
      },
      endpoint: undefined,
      region: undefined,
    });
    expect(secretsOf(access.identity)).toEqual(['id', 'secret', 'token']);
  });

  it.each([
    [{}],
    [{ AWS_ACCESS_KEY_ID: 'id' }],
    [{ AWS_ACCESS_KEY_ID: 'id', AWS_SECRET_ACCESS_KEY: '' }],
    [{ AWS_PROFILE: 'team' }],
  ])('leaves %j to the chain of the SDK', async (environment) => {
    const { identity } = await read('s3://bucket', environment);
    expect(identity).toEqual({ kind: 'chain' });
    expect(secretsOf(identity)).toEqual([]);
  });

  it.each([
    ['s3://bucket', {}, undefined],
    ['s3://bucket', { AWS_DEFAULT_REGION: 'eu-west-1' }, 'eu-west-1'],
    ['s3://bucket', { AWS_REGION: 'a', AWS_DEFAULT_REGION: 'b' }, 'a'],
    ['s3://host:9000/bucket', {}, 'us-east-1'],
    ['s3://host:9000/bucket', { AWS_REGION: 'local' }, 'local'],
    ['s3://https://s3.eu-west-1.amazonaws.com:443/bucket', {}, 'eu-west-1'],
  ])('finds the region of %s in %j', async (location, environment, region) => {
    expect((await read(location, environment)).region).toBe(region);
  });

  it.each([
    ['s3://bucket', { AWS_ENDPOINT_URL: 'http://a:1' }, 'http://a:1'],
    [
      's3://bucket',
      { AWS_ENDPOINT_URL: 'http://a:1', AWS_ENDPOINT_URL_S3: 'http://b:1' },
      'http://b:1',
    ],
    ['s3://host:9000/bucket', { AWS_ENDPOINT_URL: 'http://a:1' }, 'http://host:9000'],
  ])('finds the endpoint of %s in %j', async (location, environment, endpoint) => {
    expect((await read(location, environment)).endpoint).toBe(endpoint);
  });

  const entries = {
    '': entry('any'),
    's3://bucket': entry('bucket'),
    's3://bucket/team/': entry('team'),
    's3://bucket/team/a//b': entry('deep'),
    's3://host:9000/bucket': entry('host'),
    's3://https://host:443/bucket': entry('secure'),
  };
  it.each([
    ['s3://elsewhere', 'any'],
    ['s3://bucket', 'bucket'],
    ['s3://bucket/other', 'bucket'],
    ['s3://bucket2/team', 'any'],
    ['s3://bucket/team', 'team'],
    ['s3://bucket/teams', 'bucket'],
    ['s3://bucket//team/a/', 'team'],
    ['s3://bucket/team/a/b/c', 'deep'],
    ['s3://http://host:9000/bucket/x', 'host'],
    ['s3://host:9001/bucket/x', 'any'],
    ['s3://https://host/bucket/x', 'secure'],
  ])('gives %s the entry of its longest prefix', async (location, id) => {
    const { identity } = await readWithFile(location, { s3: entries });
    expect(identity).toMatchObject({ accessKeyId: id, secretAccessKey: `${id}-secret` });
  });

  it('falls back to the environment where no entry matches', async () => {
    const { identity } = await readWithFile('s3://b', { s3: { 's3://c': entry('c') }, gs: {} });
    expect(identity).toMatchObject({ accessKeyId: 'from-environment' });
    const other = await readWithFile('s3://b', { gs: {} });
    expect(other.identity).toMatchObject({ accessKeyId: 'from-environment' });
  });

  it('takes region, session token and profile from the file', async () => {
    const keys = await readWithFile('s3://b', {
      s3: { '': { ...entry('x'), session_token: 'token', region: 'eu-west-1' } },
    });
    expect(keys).toMatchObject({ identity: { sessionToken: 'token' }, region: 'eu-west-1' });
    const profile = await readWithFile('s3://b', { s3: { '': { profile: 'team' } } });
    expect(profile.identity).toEqual({ kind: 'profile', profile: 'team' });
    const region = await readWithFile('s3://b', { s3: { '': { region: 'eu-west-1' } } });
    expect(region).toMatchObject({
      identity: { accessKeyId: 'from-environment' },
      region: 'eu-west-1',
    });
  });

  it.each([
    ['not JSON', '{"s3": secret-text', 'is not valid JSON'],
    ['no object of stores', { s3: ['secret-text'] }, "'s3' must be an object"],
    ['an entry that is no object', { s3: { '': 'secret-text' } }, 'expected an object'],
    ['a key that is no text', { s3: { '': { key_id: 1 } } }, "'key_id' must be a string"],
    ['half a key pair', { s3: { '': { key_id: 'secret-text' } } }, 'must be given together'],
  ])('refuses a file with %s without repeating it', async (_name, document, reason) => {
    const error = await readWithFile('s3://b', document).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringContaining(reason),
    });
    expect((error as Error).cause).toBeUndefined();
    expect((error as Error).message).not.toContain('secret-text');
  });

  it('says which file it cannot read', async () => {
    const environment = { TRITON_CLOUD_CREDENTIAL_PATH: join(scratch.path, 'nope.json') };
    await expect(read('s3://b', environment)).rejects.toMatchObject({
      code: 'INVALID_ARG',
      message: expect.stringMatching(/nope\.json' of TRITON_CLOUD_CREDENTIAL_PATH: ENOENT$/),
    });
  });
});
