import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  DeleteObjectsCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import { accessKeyId, s3Programs, secretAccessKey } from './s3-programs.js';
import { findFreePorts } from './server-process.js';

export { accessKeyId, secretAccessKey };

const startTimeoutMs = 60_000;

/** What runs below {@link S3Server}; `TEST_S3_SERVER` names another one than the default. */
const program =
  s3Programs[process.env['TEST_S3_SERVER'] === 'seaweedfs' ? 'seaweedfs' : 'versitygw'];

/**
 * Builds the S3 server where it is not there yet, which takes some minutes. Resolves with what is
 * missing, or with undefined where there is an S3 server now.
 */
export async function prepareS3Server(): Promise<string | undefined> {
  try {
    await program.prepare();
    return undefined;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return `the S3 server needs Go 1.26 or newer (https://go.dev/dl) to build it: ${reason}`;
  }
}

/** A real S3 server on a free port of the loopback, with one empty bucket. */
export class S3Server {
  readonly bucket = 'models';
  readonly endpoint: string;
  /** For setting up what is to be found, on another way than the code under test takes. */
  readonly client: S3Client;
  readonly #port: number;
  readonly #folder: string;
  #process: ChildProcess | undefined;

  static async start(): Promise<S3Server> {
    const folder = await mkdtemp(join(tmpdir(), 'nereid-s3-'));
    const [port] = await findFreePorts();
    const server = new S3Server(port, folder);
    await server.restart();
    return server;
  }

  private constructor(port: number, folder: string) {
    this.#port = port;
    this.#folder = folder;
    this.endpoint = `http://127.0.0.1:${port}`;
    this.client = new S3Client({
      endpoint: this.endpoint,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId, secretAccessKey },
    });
  }

  /** As a user would write it: `s3://http://127.0.0.1:PORT/models/PREFIX`. */
  location(prefix = ''): string {
    return `s3://${this.endpoint}/${this.bucket}/${prefix}`;
  }

  /** What a user puts into the environment. */
  get environment(): Readonly<Record<string, string>> {
    return { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey };
  }

  async put(key: string, body: string | Uint8Array): Promise<void> {
    await this.client.send(new PutObjectCommand({ Bucket: this.bucket, Key: key, Body: body }));
  }

  async putAll(files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
    for (const [key, body] of Object.entries(files)) {
      await this.put(key, body);
    }
  }

  /** Deletes everything whose key begins with `prefix`. */
  async remove(prefix: string): Promise<void> {
    let token: string | undefined;
    do {
      const page: ListObjectsV2CommandOutput = await this.client.send(
        new ListObjectsV2Command({
          Bucket: this.bucket,
          Prefix: prefix,
          ContinuationToken: token,
        }),
      );
      const keys = (page.Contents ?? []).flatMap(({ Key }) => (Key === undefined ? [] : [{ Key }]));
      if (keys.length > 0) {
        await this.client.send(
          new DeleteObjectsCommand({ Bucket: this.bucket, Delete: { Objects: keys } }),
        );
      }
      token = page.NextContinuationToken;
    } while (token !== undefined);
  }

  /** Ends the server's process at once, as a crash would. Its objects stay. */
  async kill(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (child !== undefined && child.exitCode === null) {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.kill('SIGKILL');
      await ended;
    }
  }

  /** Starts the server again on the same port; resolves when it answers. */
  async restart(): Promise<void> {
    const { command, args, environment } = await program.launch(
      this.#port,
      this.#folder,
      this.bucket,
    );
    const child = spawn(command, args, {
      env: { ...process.env, ...environment },
      stdio: 'ignore',
    });
    this.#process = child;
    const deadlineMs = Date.now() + startTimeoutMs;
    while (!(await program.isUp(this.client, this.endpoint, this.bucket))) {
      if (child.exitCode !== null || Date.now() > deadlineMs) {
        throw new Error(`the S3 server did not start (exit code ${child.exitCode})`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  async stop(): Promise<void> {
    this.client.destroy();
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}
