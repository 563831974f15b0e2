import { Readable } from 'node:stream';
import type { S3Client, S3ClientConfig } from '@aws-sdk/client-s3';
import type { ObjectBody, ObjectStore, StoredObject } from './object-store.js';
import type { S3Access } from './s3-credentials.js';
import { describeS3Error, type S3Call } from './s3-errors.js';
import type { S3Location } from './s3-location.js';
import { storeError } from './store-error.js';

/** Tries of one request. The SDK waits longer and longer in between, from 0.1 s on. */
const attemptsMax = 4;
const connectionTimeoutMs = 5000;
/** A connection over which nothing came for so long is given up. */
const silenceMs = 30_000;
/** A longer listing is taken for a mistake in the location. */
const objectsMax = 1_000_000;

/** The SDK, loaded when it is first needed: it takes 0.2 s, which local repositories do not pay. */
type Sdk = typeof import('@aws-sdk/client-s3');

/** An S3 store through AWS's SDK. Nothing is sent before the first call. */
export async function connectS3(location: S3Location, access: S3Access): Promise<ObjectStore> {
  const sdk = await import('@aws-sdk/client-s3');
  return new S3Store(location, access, sdk, new sdk.S3Client(clientConfig(access)));
}

function clientConfig(access: S3Access): S3ClientConfig {
  const { endpoint, identity, region } = access;
  return {
    maxAttempts: attemptsMax,
    requestHandler: { connectionTimeout: connectionTimeoutMs, socketTimeout: silenceMs },
    ...(region === undefined ? {} : { region }),
    // Stores other than AWS mostly have no name for each bucket, and some reject checksum headers.
    ...(endpoint === undefined
      ? {}
      : {
          endpoint,
          forcePathStyle: true,
          requestChecksumCalculation: 'WHEN_REQUIRED',
          responseChecksumValidation: 'WHEN_REQUIRED',
        }),
    ...(identity.kind === 'profile' ? { profile: identity.profile } : {}),
    ...(identity.kind === 'keys'
      ? {
          credentials: {
            accessKeyId: identity.accessKeyId,
            secretAccessKey: identity.secretAccessKey,
            ...(identity.sessionToken === undefined ? {} : { sessionToken: identity.sessionToken }),
          },
        }
      : {}),
  };
}

class S3Store implements ObjectStore {
  readonly #location: S3Location;
  readonly #access: S3Access;
  readonly #sdk: Sdk;
  readonly #client: S3Client;

  constructor(location: S3Location, access: S3Access, sdk: Sdk, client: S3Client) {
    this.#location = location;
    this.#access = access;
    this.#sdk = sdk;
    this.#client = client;
  }

  async list(prefix: string, signal: AbortSignal): Promise<readonly StoredObject[]> {
    const objects: StoredObject[] = [];
    const call: S3Call = { operation: 'list', key: prefix };
    let token: string | undefined;
    do {
      const command = new this.#sdk.ListObjectsV2Command({
        Bucket: this.#location.bucket,
        ...(prefix === '' ? {} : { Prefix: prefix }),
        ...(token === undefined ? {} : { ContinuationToken: token }),
      });
      const page = await this.#try(call, () => this.#client.send(command, { abortSignal: signal }));
      for (const { Key: key, Size: bytes, ETag: etag, LastModified: modified } of page.Contents ??
        []) {
        if (key !== undefined) {
          objects.push({
            key,
            bytes: bytes ?? 0,
            etag: withoutQuotes(etag),
            modifiedMs: modified?.getTime() ?? 0,
          });
        }
      }
      if (objects.length > objectsMax) {
        const place = `'${prefix}' in bucket '${this.#location.bucket}'`;
        throw storeError('refused', `S3 list of ${place}: more than ${objectsMax} objects`);
      }
      token = page.NextContinuationToken;
      if (page.IsTruncated === true && token === undefined) {
        throw storeError('unreachable', `S3 list of '${prefix}': the store broke the listing off`);
      }
    } while (token !== undefined);
    return objects;
  }

  async get(object: StoredObject, signal: AbortSignal): Promise<ObjectBody> {
    const call: S3Call = { operation: 'get', key: object.key };
    const command = new this.#sdk.GetObjectCommand({
      Bucket: this.#location.bucket,
      Key: object.key,
      ...(object.etag === '' ? {} : { IfMatch: `"${object.etag}"` }),
    });
    const { Body: body, ETag: etag } = await this.#try(call, () =>
      this.#client.send(command, { abortSignal: signal }),
    );
    if (!(body instanceof Readable)) {
      throw storeError('refused', `S3 get of '${object.key}': the answer has no body`);
    }
    return { etag: withoutQuotes(etag), stream: body };
  }

  destroy(): void {
    this.#client.destroy();
  }

  async #try<Answer>(call: S3Call, send: () => Promise<Answer>): Promise<Answer> {
    try {
      return await send();
    } catch (error) {
      throw describeS3Error(error, call, this.#location, this.#access);
    }
  }
}

function withoutQuotes(etag: string | undefined): string {
  return (etag ?? '').replace(/^W\//, '').replaceAll('"', '');
}
