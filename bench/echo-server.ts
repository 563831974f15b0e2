import uws from 'uWebSockets.js';

/**
 * The limit of the HTTP layer: a bare uWebSockets.js server that sends back the bytes it gets.
 * Prints its port and runs until it is ended.
 */
uws
  .App()
  .post('/*', (response) => {
    const chunks: Buffer[] = [];
    response.onAborted(() => {
      chunks.length = 0;
    });
    response.onData((chunk, isLast) => {
      // The chunk is borrowed: it must be copied before this returns.
      chunks.push(Buffer.from(new Uint8Array(chunk)));
      if (!isLast) return;
      const [first] = chunks;
      const body = chunks.length === 1 && first !== undefined ? first : Buffer.concat(chunks);
      response.cork(() => {
        response.writeHeader('Content-Type', 'application/octet-stream').end(body);
      });
    });
  })
  .listen('127.0.0.1', 0, (socket) => {
    if (socket === false) throw new Error('the echo server could not listen');
    process.stdout.write(`port ${uws.us_socket_local_port(socket)}\n`);
  });
