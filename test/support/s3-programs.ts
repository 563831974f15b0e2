import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { findFreePorts } from './server-process.js';

const toolsFolder = fileURLToPath(new URL('../../.tools', import.meta.url));
const programs = join(toolsFolder, 'bin');

export const accessKeyId = 'nereid-tester';
export const secretAccessKey = 'nereid-secret-key';

/** An S3 server that tests can build and run. */
interface S3Program {
  /** Builds it where it is not there yet. */
  prepare(): Promise<void>;
  /** How it is started on a port of the loopback, with its data in a folder. */
  launch(port: number, folder: string, bucket: string): Promise<Launch>;
  /** True when objects can be written to the bucket. */
  isUp(client: S3Client, endpoint: string, bucket: string): Promise<boolean>;
}

interface Launch {
  readonly command: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

const run = promisify(execFile);

/** Small and quick: objects are plain files. */
const versitygw: S3Program = {
  async prepare() {
    if (existsSync(join(programs, 'versitygw'))) return;
    await run('go', ['install', 'github.com/versity/versitygw/cmd/versitygw@v1.8.0'], {
      env: { ...process.env, GOBIN: programs },
    });
  },
  async launch(port, folder, bucket) {
    // A folder in the server's root is a bucket.
    await mkdir(join(folder, bucket), { recursive: true });
    return {
      command: join(programs, 'versitygw'),
      args: ['--port', `127.0.0.1:${port}`, '--health', '/healthz', 'posix', folder],
      environment: { ROOT_ACCESS_KEY: accessKeyId, ROOT_SECRET_KEY: secretAccessKey },
    };
  },
  async isUp(_client, endpoint) {
    try {
      return (await fetch(`${endpoint}/healthz`)).ok;
    } catch {
      return false;
    }
  },
};

/** Its own go.mod has replacements, with which `go install` does not work. */
const seaweedModule = `module tools/weed

go 1.26.6

require github.com/seaweedfs/seaweedfs v0.0.0-20261109003541-7506e5f91cd6

replace github.com/tyler-smith/go-bip39 => github.com/cosmos/go-bip39 v1.0.0

tool github.com/seaweedfs/seaweedfs/weed
`;

/** A distributed store as people run it, all of its parts in one process. */
const seaweedfs: S3Program = {
  async prepare() {
    if (existsSync(join(programs, 'weed'))) return;
    const folder = join(toolsFolder, 'seaweedfs');
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'go.mod'), seaweedModule);
    const options = { cwd: folder, maxBuffer: 1 << 26 };
    await run('go', ['mod', 'tidy'], options);
    const weed = ['-o', join(programs, 'weed'), 'github.com/seaweedfs/seaweedfs/weed'];
    await run('go', ['build', '-ldflags=-s -w', ...weed], options);
  },
  async launch(port, folder) {
    const identities = [
      {
        name: 'tester',
        credentials: [{ accessKey: accessKeyId, secretKey: secretAccessKey }],
        actions: ['Admin', 'Read', 'Write', 'List', 'Tagging'],
      },
    ];
    await writeFile(join(folder, 's3.json'), JSON.stringify({ identities }));
    const data = join(folder, 'data');
    await mkdir(data, { recursive: true });
    const [master, volume, filer] = await findFreePorts();
    const [masterGrpc, volumeGrpc, filerGrpc] = await findFreePorts();
    const [s3Grpc] = await findFreePorts();
    return {
      command: join(programs, 'weed'),
      args: [
        'server',
        '-ip=127.0.0.1',
        '-ip.bind=127.0.0.1',
        `-dir=${data}`,
        `-master.port=${master}`,
        `-master.port.grpc=${masterGrpc}`,
        '-master.volumeSizeLimitMB=1024',
        `-volume.port=${volume}`,
        `-volume.port.grpc=${volumeGrpc}`,
        '-volume.max=20',
        '-filer',
        `-filer.port=${filer}`,
        `-filer.port.grpc=${filerGrpc}`,
        '-s3',
        `-s3.port=${port}`,
        `-s3.port.grpc=${s3Grpc}`,
        `-s3.config=${join(folder, 's3.json')}`,
      ],
      environment: {},
    };
  },
  async isUp(client, _endpoint, bucket) {
    // Its parts start one after another: only an object that arrives says that all are there.
    const probe = { Bucket: bucket, Key: 'probe' };
    try {
      await client
        .send(new HeadBucketCommand({ Bucket: bucket }))
        .catch(() => client.send(new CreateBucketCommand({ Bucket: bucket })));
      await client.send(new PutObjectCommand({ ...probe, Body: 'probe' }));
      await client.send(new DeleteObjectCommand(probe));
      return true;
    } catch {
      return false;
    }
  },
};

export const s3Programs = { versitygw, seaweedfs } as const;
