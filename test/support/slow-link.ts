import { connect, createServer, type Server, type Socket } from 'node:net';
import { Transform } from 'node:stream';

/** A port of the loopback that leads to another one, with a bound of bytes a second on the way back. */
export class SlowLink {
  readonly port: number;
  readonly #server: Server;
  readonly #sockets: Set<Socket>;

  static async open(targetPort: number, bytesPerSecond: number): Promise<SlowLink> {
    const sockets = new Set<Socket>();
    let freeMs = 0;
    const server = createServer((client) => {
      const target = connect(targetPort, '127.0.0.1');
      sockets.add(client).add(target);
      const slow = new Transform({
        transform(chunk: Buffer, _encoding, done) {
          // One budget for all connections.
          freeMs = Math.max(freeMs, performance.now()) + (1000 * chunk.length) / bytesPerSecond;
          setTimeout(() => done(null, chunk), freeMs - performance.now());
        },
      });
      client.pipe(target);
      target.pipe(slow).pipe(client);
      // Either end may break off at any time, and then the other one has to go. What the target has
      // sent before it closed still arrives.
      client.on('error', () => client.destroy());
      client.on('close', () => target.destroy());
      target.on('error', () => client.destroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    return new SlowLink(server, sockets, address.port);
  }

  private constructor(server: Server, sockets: Set<Socket>, port: number) {
    this.#server = server;
    this.#sockets = sockets;
    this.port = port;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
