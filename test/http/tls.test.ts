import { readFileSync } from 'node:fs';
import { request } from 'node:https';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { RunningHttpServer } from './running-http-server.js';

const file = (name: string): string =>
  fileURLToPath(new URL(`../fixtures/tls/${name}`, import.meta.url));
const tls = { keyFile: file('server-key.pem'), certFile: file('server.pem'), clientRootFile: '' };
const mutualTls = { ...tls, clientRootFile: file('ca.pem') };
const clientCertificate = {
  key: readFileSync(file('client-key.pem')),
  cert: readFileSync(file('client.pem')),
};

function getStatus(port: number, options: object): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const call = request(
      {
        host: '127.0.0.1',
        port,
        path: '/v2/health/live',
        ca: readFileSync(file('ca.pem')),
        agent: false,
        ...options,
      },
      (response) => {
        response.resume();
        resolve(response.statusCode);
      },
    );
    call.on('error', reject);
    call.end();
  });
}

describe('HTTPS', () => {
  it.each(['uws', 'node'] as const)(
    'is served by %s with the certificate given',
    async (transport) => {
      const front = await RunningHttpServer.start({ transport, tls });
      await expect(getStatus(front.port, {})).resolves.toBe(200);
      front.stop();
    },
  );

  it('admits only clients with a certificate where they are asked for one', async () => {
    const front = await RunningHttpServer.start({ transport: 'auto', tls: mutualTls });
    await expect(getStatus(front.port, clientCertificate)).resolves.toBe(200);
    await expect(getStatus(front.port, {})).rejects.toThrow();
    expect(front.log.join()).toContain('HTTP is carried by node:http');
    front.stop();
  });

  it('does not start on a carrier that cannot ask for certificates', async () => {
    const options = { transport: 'uws', tls: mutualTls } as const;
    await expect(RunningHttpServer.start(options)).rejects.toThrow('--http-transport=node');
  });

  it.each(['uws', 'node'] as const)(
    'refuses to start %s with a key that is not there',
    async (transport) => {
      const missing = { ...tls, keyFile: file('no-such-key.pem') };
      await expect(RunningHttpServer.start({ transport, tls: missing })).rejects.toThrow(
        /no-such-key\.pem/,
      );
    },
  );

  it.each(['uws', 'node'] as const)(
    'refuses to start %s with the key of another',
    async (transport) => {
      const other = { ...tls, keyFile: file('client-key.pem') };
      await expect(RunningHttpServer.start({ transport, tls: other })).rejects.toThrow(
        /cannot serve HTTPS with key .*client-key\.pem and certificate .*server\.pem: .*mismatch/,
      );
    },
  );
});
