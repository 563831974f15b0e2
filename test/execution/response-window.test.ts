import { describe, expect, it } from 'vitest';
import type { InstanceNotice } from '../../src/execution/messages.js';
import {
  ReceivedResponses,
  responseWindowBytes,
  SentResponses,
  windowBytesOf,
} from '../../src/execution/response-window.js';

function responseOf(byteLength: number): InstanceNotice {
  return {
    type: 'response',
    executionId: 1,
    requestIndex: 0,
    buffer: new ArrayBuffer(byteLength),
    response: undefined,
    error: undefined,
    isFinal: false,
  };
}

/** True once `sent` has room; the promise is given every chance to settle. */
async function hasRoom(sent: SentResponses): Promise<boolean> {
  return Promise.race([
    sent.untilRoom().then(() => true),
    new Promise<false>((resolve) => {
      setImmediate(() => resolve(false));
    }),
  ]);
}

describe('the window of responses on their way', () => {
  it('shuts when it is full and opens when what was sent has arrived', async () => {
    const sent = new SentResponses();
    const large = responseOf(responseWindowBytes);
    expect(await hasRoom(sent)).toBe(true);
    sent.add(large);
    expect(await hasRoom(sent)).toBe(false);
    const waiting = sent.untilRoom();
    sent.received(windowBytesOf(large));
    await waiting;
    expect(await hasRoom(sent)).toBe(true);
  });

  it('lets go of everybody who waits where the thread ends', async () => {
    const sent = new SentResponses();
    sent.add(responseOf(responseWindowBytes));
    const waiting = [sent.untilRoom(), sent.untilRoom()];
    sent.release();
    await Promise.all(waiting);
  });

  it.each([0, 1000, 100_000, 3 * responseWindowBytes])(
    'never stays shut between two ends that send %i bytes at a time',
    async (byteLength) => {
      const sent = new SentResponses();
      const received = new ReceivedResponses();
      const notice = responseOf(byteLength);
      const onTheirWay: InstanceNotice[] = [];
      for (let count = 0; count < 10_000; count++) {
        if (!(await hasRoom(sent))) {
          // The main thread hears all that is on its way.
          for (const arrived of onTheirWay.splice(0)) sent.received(received.add(arrived));
          expect(await hasRoom(sent)).toBe(true);
          if (count > 20) break;
        }
        sent.add(notice);
        onTheirWay.push(notice);
      }
    },
  );

  it('is not taken by anything but responses', () => {
    expect(windowBytesOf({ type: 'log', level: 'info', message: 'x' })).toBe(0);
    expect(new ReceivedResponses().add({ type: 'log', level: 'info', message: 'x' })).toBe(0);
  });
});
