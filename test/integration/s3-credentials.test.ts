import {
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ScratchFolder } from '../repository/model-files.js';
import { accessKeyId, prepareS3Server, S3Server, secretAccessKey } from '../support/s3-server.js';
import { ServerProcess } from '../support/server-process.js';
import { inferOne, oneNumber } from '../support/written-repository.js';

const missing = await prepareS3Server();
if (missing !== undefined && process.env['CI'] === 'true') {
  throw new Error(missing);
}

type Environment = Readonly<Record<string, string>>;

const expiration = new Date(Date.now() + 3_600_000).toISOString();
const roleCredentials = JSON.stringify({
  Code: 'Success',
  Type: 'AWS-HMAC',
  LastUpdated: new Date().toISOString(),
  AccessKeyId: 'role-key',
  SecretAccessKey: 'role-secret',
  Token: 'role-token',
  Expiration: expiration,
});

const assumedRole = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
  <AssumeRoleWithWebIdentityResult>
    <AssumedRoleUser><Arn>arn:aws:sts::1:assumed-role/reader/s</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser>
    <Credentials>
      <AccessKeyId>role-key</AccessKeyId>
      <SecretAccessKey>role-secret</SecretAccessKey>
      <SessionToken>role-token</SessionToken>
      <Expiration>${expiration}</Expiration>
    </Credentials>
  </AssumeRoleWithWebIdentityResult>
</AssumeRoleWithWebIdentityResponse>`;

const objects: Readonly<Record<string, string>> = {
  'm/config.pbtxt': `backend: "javascript"\n${oneNumber('TYPE_INT32')}`,
  'm/1/model.mjs': 'export default ({ X }) => ({ Y: X });',
};

/** A bucket for whoever has a role; the S3 server of the other tests knows no session tokens. */
function answerRole({ url = '', headers }: IncomingMessage, response: ServerResponse): void {
  const isRole =
    headers['x-amz-security-token'] === 'role-token' &&
    headers.authorization?.includes('Credential=role-key/') === true;
  if (!isRole) {
    response.writeHead(403).end('<Error><Code>AccessDenied</Code></Error>');
    return;
  }
  const key = decodeURIComponent(new URL(url, 'http://store').pathname.slice('/models/'.length));
  const contents = objects[key];
  if (contents !== undefined) {
    response.writeHead(200, { etag: `"${key.length}"` }).end(contents);
    return;
  }
  const rows = Object.entries(objects).map(
    ([name, text]) =>
      `<Contents><Key>${name}</Key><Size>${text.length}</Size><ETag>"${name.length}"</ETag></Contents>`,
  );
  response.end(
    `<ListBucketResult><IsTruncated>false</IsTruncated>${rows.join('')}</ListBucketResult>`,
  );
}

let roleStore: Server;
let roleLocation = '';
let store: S3Server;
let scratch: ScratchFolder;
/** Stands for what a cloud offers to its machines. */
let cloud: Server;
let asked: string[] = [];
let server: ServerProcess | undefined;

function answer(method: string, url: string, response: ServerResponse): void {
  asked.push(`${method} ${url}`);
  if (method === 'PUT') response.end('metadata-token');
  else if (method === 'POST') response.end(assumedRole);
  else if (url.endsWith('/security-credentials/')) response.end('reader');
  else response.end(roleCredentials);
}

async function listen(listening: Server): Promise<string> {
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve));
  const address = listening.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  return `http://127.0.0.1:${address.port}`;
}

let cloudUrl = '';

describe.skipIf(missing !== undefined)('a server that reads a bucket', () => {
  beforeAll(async () => {
    store = await S3Server.start();
    await store.putAll(objects);
    roleStore = createServer(answerRole);
    roleLocation = `s3://${await listen(roleStore)}/models`;
    cloud = createServer(({ method = '', url = '' }, response) => answer(method, url, response));
    cloudUrl = await listen(cloud);
  });

  afterAll(async () => {
    cloud.close();
    roleStore.closeAllConnections();
    roleStore.close();
    await store.stop();
  });

  beforeEach(async () => {
    asked = [];
    scratch = await ScratchFolder.create();
  });

  afterEach(async () => {
    await server?.stop();
    server = undefined;
    await scratch.remove();
  });

  async function serves(location: string, environment: Environment): Promise<void> {
    server = await ServerProcess.start([`--model-repository=${location}`], environment);
    expect((await inferOne(server.httpUrl, 'm', 7)).value).toBe(7);
  }

  it('finds the keys of a profile in the shared files', async () => {
    await scratch.write({
      config: '[profile team]\nregion = eu-central-1\n',
      credentials: `[team]\naws_access_key_id = ${accessKeyId}\naws_secret_access_key = ${secretAccessKey}\n`,
    });
    await serves(store.location(), {
      AWS_PROFILE: 'team',
      AWS_CONFIG_FILE: join(scratch.path, 'config'),
      AWS_SHARED_CREDENTIALS_FILE: join(scratch.path, 'credentials'),
    });
  });

  it("takes the role of a pod's service account", async () => {
    await scratch.write({ token: 'signed by the cluster' });
    await serves(roleLocation, {
      AWS_ROLE_ARN: 'arn:aws:iam::1:role/reader',
      AWS_WEB_IDENTITY_TOKEN_FILE: join(scratch.path, 'token'),
      AWS_ENDPOINT_URL_STS: cloudUrl,
    });
    expect(asked).toEqual(['POST /']);
  });

  it('takes the role of a container', async () => {
    await serves(roleLocation, {
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${cloudUrl}/container-role`,
    });
    expect(asked).toEqual(['GET /container-role']);
  });

  it('takes the role of a machine', async () => {
    await serves(roleLocation, { AWS_EC2_METADATA_SERVICE_ENDPOINT: cloudUrl });
    expect(asked).toEqual([
      'PUT /latest/api/token',
      'GET /latest/meta-data/iam/security-credentials/',
      'GET /latest/meta-data/iam/security-credentials/reader',
    ]);
  });

  it('sends nothing that a store without checksums would refuse', async () => {
    const refused: string[] = [];
    const strict = createServer((incoming, response) => {
      const names = Object.keys(incoming.headers).filter((name) => name.includes('checksum'));
      if (names.length > 0) {
        refused.push(...names);
        response.writeHead(501).end('<Error><Code>NotImplemented</Code></Error>');
        return;
      }
      const { method, url, headers } = incoming;
      incoming.pipe(
        request(`${store.endpoint}${url}`, { method, headers }, (outgoing) => {
          response.writeHead(outgoing.statusCode ?? 500, outgoing.headers);
          outgoing.pipe(response);
        }),
      );
    });
    const url = await listen(strict);
    await serves(`s3://${url}/${store.bucket}`, store.environment);
    expect(refused).toEqual([]);
    strict.closeAllConnections();
    strict.close();
  });

  it('keeps its copy where TRITON_AWS_MOUNT_DIRECTORY says, for a start without the store', async () => {
    const environment = { ...store.environment, TRITON_AWS_MOUNT_DIRECTORY: scratch.path };
    await serves(store.location(), environment);
    await server?.stop();
    await store.kill();
    try {
      await serves(store.location(), environment);
      expect(server?.log).toContain('serving 1 models from the cache');
    } finally {
      await store.restart();
    }
  });
});
