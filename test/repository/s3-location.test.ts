import { describe, expect, it } from 'vitest';
import {
  canonicalS3Location,
  parseS3Location,
  regionOfEndpoint,
} from '../../src/repository/s3-location.js';

describe('parseS3Location', () => {
  it.each([
    ['s3://bucket', undefined, 'bucket', ''],
    ['s3://bucket/', undefined, 'bucket', ''],
    ['s3://bucket/models', undefined, 'bucket', 'models/'],
    ['s3://bucket//a///b//', undefined, 'bucket', 'a/b/'],
    ['s3://demo-bucket1.0/a_b.c-d', undefined, 'demo-bucket1.0', 'a_b.c-d/'],
    ['s3://host:9000/bucket', 'http://host:9000', 'bucket', ''],
    ['s3://127.0.0.1:9000//bucket//models/', 'http://127.0.0.1:9000', 'bucket', 'models/'],
    ['s3://[::1]:9000/bucket/models', 'http://[::1]:9000', 'bucket', 'models/'],
    ['s3://http://host:9000/bucket/a/b', 'http://host:9000', 'bucket', 'a/b/'],
    ['s3://https://HOST:8443/bucket/a', 'https://host:8443', 'bucket', 'a/'],
    [
      's3://https://host:443/triton-bucket/model_registry/',
      'https://host',
      'triton-bucket',
      'model_registry/',
    ],
    ['s3://https://host/bucket', 'https://host', 'bucket', ''],
    ['s3://http://host:80/bucket', 'http://host', 'bucket', ''],
    ['s3://bucket/prefix:9000/x', undefined, 'bucket', 'prefix:9000/x/'],
    ['s3://bucket/modèle', undefined, 'bucket', 'modèle/'],
  ])('reads %s', (text, endpoint, bucket, prefix) => {
    expect(parseS3Location(text)).toEqual({ text, endpoint, bucket, prefix });
  });

  it.each([
    ['/models', 'is not an S3 location'],
    ['s3:/bucket', 'is not an S3 location'],
    ['s3://', 'names no bucket'],
    ['s3:///', 'names no bucket'],
    ['s3://host:9000', 'names no bucket'],
    ['s3://host:9000/', 'names no bucket'],
    ['s3://https://host:443', 'names no bucket'],
    ['s3://http:///bucket', 'has no valid host and port'],
    ['s3://http://host:99999/bucket', 'has no valid host and port'],
    ['s3://host:99999/bucket', 'has no valid host and port'],
    ['s3://buck et/models', "'buck et' cannot be the name of a bucket"],
    ['s3://bucket/../other', "'.' and '..' mean nothing in a bucket"],
  ])('refuses %s', (text, reason) => {
    expect(() => parseS3Location(text)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARG', message: expect.stringContaining(reason) }),
    );
  });

  it.each([
    's3://https://user:hunter2@host:443/bucket',
    's3://user:hunter2@host:9000/bucket',
    's3://hunter2@bucket/models',
  ])('does not repeat a password, as in %s', (text) => {
    expect(() => parseS3Location(text)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining('hunter2') }),
    );
  });
});

describe('canonicalS3Location', () => {
  it.each([
    ['s3://bucket//models/', 's3://bucket/models'],
    ['s3://bucket/', 's3://bucket'],
    ['s3://HOST:9000/bucket/a//', 's3://http://host:9000/bucket/a'],
    ['s3://https://host:443/bucket', 's3://https://host/bucket'],
  ])('writes %s as %s', (text, canonical) => {
    expect(canonicalS3Location(parseS3Location(text))).toBe(canonical);
    expect(canonicalS3Location(parseS3Location(canonical))).toBe(canonical);
  });
});

describe('regionOfEndpoint', () => {
  it.each([
    ['https://s3.eu-west-1.amazonaws.com', 'eu-west-1'],
    ['https://s3-us-west-2.amazonaws.com', 'us-west-2'],
    ['https://s3.dualstack.us-east-2.amazonaws.com', 'us-east-2'],
    ['https://s3.cn-north-1.amazonaws.com.cn', 'cn-north-1'],
    ['https://s3.amazonaws.com', undefined],
    ['http://s3.eu-west-1.example.com:9000', undefined],
  ])('finds the region in %s', (endpoint, region) => {
    expect(regionOfEndpoint(endpoint)).toBe(region);
  });
});
