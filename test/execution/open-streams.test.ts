import { expect, it } from 'vitest';
import type { RequestResult } from '../../src/execution/messages.js';
import type { ExecuteReply, ResponseNotice } from '../../src/execution/model-instances.js';
import { OpenStreams } from '../../src/execution/open-streams.js';

function opened() {
  const events: string[] = [];
  const streams = new OpenStreams((executionId) => events.push(`end ${executionId}`));
  streams.open(1, {
    onResponse: ({ requestIndex, isFinal }) =>
      events.push(`${requestIndex}${isFinal ? ' final' : ''}`),
    onLost: ({ message }) => events.push(`lost: ${message}`),
  });
  return { streams, events };
}

function notice(requestIndex: number, isFinal: boolean, executionId = 1): ResponseNotice {
  return {
    type: 'response',
    executionId,
    requestIndex,
    buffer: new ArrayBuffer(0),
    response: undefined,
    error: undefined,
    isFinal,
  };
}

function reply(...types: RequestResult['type'][]): ExecuteReply {
  const results = types.map((type): RequestResult => {
    if (type === 'streamed') return { type };
    return { type: 'response', response: { outputs: [], parameters: [] }, byteOffset: 0 };
  });
  const buffer = new ArrayBuffer(0);
  const stamps = [0, 0, 0, 0] as const;
  return {
    type: 'executed-requests',
    buffer,
    results,
    stamps,
    eachStamps: undefined,
    recycled: undefined,
  };
}

it('stays open from the reply to the last final notice', () => {
  const { streams, events } = opened();
  streams.respond(notice(0, false));
  streams.answered(1, reply('streamed', 'response', 'streamed'));
  streams.respond(notice(2, true));
  expect(streams.size).toBe(1);
  streams.respond(notice(0, true));
  expect(events).toEqual(['0', '2 final', '0 final', 'end 1']);
  expect(streams.size).toBe(0);
});

it('stays open from the last final notice to the reply', () => {
  const { streams, events } = opened();
  streams.respond(notice(0, true));
  expect(events).toEqual(['0 final']);
  streams.answered(1, reply('streamed'));
  expect(events).toEqual(['0 final', 'end 1']);
});

it('ends with the reply where nothing is streamed', () => {
  const { streams, events } = opened();
  streams.answered(1, reply('response'));
  expect(events).toEqual(['end 1']);
});

it('drops notices of executions that have ended or never were', () => {
  const { streams, events } = opened();
  streams.close(1);
  streams.close(1);
  streams.respond(notice(0, true));
  streams.respond(notice(0, true, 2));
  streams.answered(1, reply('response'));
  expect(events).toEqual(['end 1']);
});

it('tells every open execution once when the thread is lost', () => {
  const { streams, events } = opened();
  streams.lose({ code: 'INTERNAL', message: 'gone' });
  streams.lose({ code: 'INTERNAL', message: 'gone again' });
  expect(events).toEqual(['lost: gone', 'end 1']);
});
