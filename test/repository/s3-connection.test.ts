import { describe, expect, it } from 'vitest';
import { S3Connection } from '../../src/repository/s3-connection.js';
import type { S3Access } from '../../src/repository/s3-credentials.js';
import { storeError } from '../../src/repository/store-error.js';
import { MemoryStore } from './memory-store.js';

const { signal } = new AbortController();

function accessFor(secretAccessKey: string): S3Access {
  return {
    identity: { kind: 'keys', accessKeyId: 'id', secretAccessKey, sessionToken: undefined },
    endpoint: undefined,
    region: undefined,
  };
}

/** Stores that refuse every secret but `good`. */
function startConnection(secrets: string[]) {
  const read: string[] = [];
  const stores: MemoryStore[] = [];
  const connection = new S3Connection({
    readAccess: async () => {
      const secret = secrets.length > 1 ? (secrets.shift() ?? '') : (secrets[0] ?? '');
      read.push(secret);
      return accessFor(secret);
    },
    connect: async ({ identity }) => {
      const store = new MemoryStore({ 'a/1/m': 'x' });
      stores.push(store);
      if (identity.kind !== 'keys' || identity.secretAccessKey !== 'good') {
        store.list = async () => {
          throw storeError('refused', 'access denied');
        };
      }
      return store;
    },
  });
  return { connection, read, stores };
}

describe('S3Connection', () => {
  it('connects at the first call and stays connected', async () => {
    const { connection, read, stores } = startConnection(['good']);
    expect(read).toEqual([]);
    await connection.list('', signal);
    await connection.list('', signal);
    expect(read).toEqual(['good']);
    expect(stores).toHaveLength(1);
  });

  it('reads credentials again after a refusal and tries once with other ones', async () => {
    const { connection, read } = startConnection(['old', 'good']);
    expect(await connection.list('', signal)).toHaveLength(1);
    expect(read).toEqual(['old', 'good']);
    await connection.list('', signal);
    expect(read).toHaveLength(2);
  });

  it('does not ask again with the credentials that were refused', async () => {
    const { connection, stores } = startConnection(['old']);
    await expect(connection.list('', signal)).rejects.toThrow('access denied');
    expect(stores).toHaveLength(1);
  });

  it('gives up after one try with other credentials', async () => {
    const { connection, stores } = startConnection(['old', 'older', 'oldest']);
    await expect(connection.list('', signal)).rejects.toThrow('access denied');
    expect(stores).toHaveLength(2);
  });

  it('does not read credentials again where the store is down', async () => {
    const { connection, read, stores } = startConnection(['good']);
    await connection.list('', signal);
    for (const store of stores) {
      store.isDown = true;
    }
    await expect(connection.list('', signal)).rejects.toThrow('the store is down');
    expect(read).toHaveLength(1);
  });

  it('connects anew after credentials that could not be read', async () => {
    let isBroken = true;
    const connection = new S3Connection({
      readAccess: async () => {
        if (isBroken) {
          throw new Error('no file');
        }
        return accessFor('good');
      },
      connect: async () => new MemoryStore({ 'a/1/m': 'x' }),
    });
    await expect(connection.list('', signal)).rejects.toThrow('no file');
    isBroken = false;
    expect(await connection.list('', signal)).toHaveLength(1);
  });

  it('ends the connection that it has', async () => {
    const { connection, stores } = startConnection(['good']);
    connection.destroy();
    await connection.list('', signal);
    connection.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(stores.map((store) => store.isDestroyed)).toEqual([true]);
  });
});
