import { describe, expect, it } from 'vitest';
import {
  type InferenceServerError,
  invalidArg,
  unavailable,
  unsupported,
} from '../../src/errors.js';
import {
  logSettingsBody,
  parseIndexRequest,
  parseLoadRequest,
  parseLogSettings,
  parseRegionRegistration,
  parseTraceSettings,
  parseUnloadRequest,
  regionStatusBody,
  traceSettingsBody,
} from '../../src/protocol/control-wire.js';

const wrongBoolean = invalidArg('attempt to access JSON non-boolean as boolean');
const wrongString = invalidArg('attempt to access JSON non-string as string');
const wrongUnsigned = invalidArg('attempt to access JSON non-unsigned-integer as unsigned-integer');
const notJson = invalidArg(
  'failed to parse the request JSON buffer: Missing a name for object member. at 1',
);
const emptyBody = invalidArg(
  'failed to parse the request JSON buffer: The document is empty. at 0',
);

describe('parseIndexRequest', () => {
  it.each([
    ['', false],
    ['{}', false],
    ['[]', false],
    ['{"ready":false}', false],
    ['{"ready":true,"ready":false}', true],
  ])('reads %s', (body, expected) => {
    expect(parseIndexRequest(Buffer.from(body))).toBe(expected);
  });

  it.each([
    ['{"ready":"true"}', wrongBoolean],
    ['{', notJson],
  ])('refuses %s', (body, error) => {
    expect(() => parseIndexRequest(Buffer.from(body))).toThrow(error);
  });
});

describe('parseLoadRequest', () => {
  it.each(['', '{}', '[]', 'null', '{"foo":1}', '{"parameters":{}}'])(
    'finds nothing in %s',
    (body) => {
      expect(parseLoadRequest(Buffer.from(body))).toEqual({ config: undefined, files: new Map() });
    },
  );

  it('reads a configuration and files', () => {
    const parameters = { config: '{"backend":"x"}', 'file:1/m.bin': 'AQID', 'file:__proto__': '' };
    expect(parseLoadRequest(Buffer.from(JSON.stringify({ parameters })))).toEqual({
      config: '{"backend":"x"}',
      files: new Map([
        ['1/m.bin', Buffer.of(1, 2, 3)],
        ['__proto__', Buffer.alloc(0)],
      ]),
    });
  });

  it.each([
    ['{', notJson],
    ['{"parameters":3}', invalidArg('attempt to get members for non-object')],
    ['{"parameters":{"config":{}}}', wrongString],
    [
      '{"parameters":{"foo":"bar"}}',
      invalidArg(
        "Unrecognized load parameter 'foo' with type string: unexpected error on creating Triton parameter",
      ),
    ],
  ])('refuses %s', (body, error) => {
    expect(() => parseLoadRequest(Buffer.from(body))).toThrow(error);
  });
});

describe('parseUnloadRequest', () => {
  it.each([
    ['{"parameters":{"unload_dependents":true}}', true],
    ['{"parameters":{"unload_dependents":"yes"}}', false],
    ['{"parameters":[]}', false],
    ['{', false],
    ['', false],
  ])('reads %s', (body, expected) => {
    expect(parseUnloadRequest(Buffer.from(body))).toBe(expected);
  });
});

describe('shared memory regions', () => {
  it('are registered with a key, a size and perhaps an offset', () => {
    expect(parseRegionRegistration(Buffer.from('{"key":"/k","byte_size":64}'))).toEqual({
      key: '/k',
      offset: 0,
      byteSize: 64,
    });
    const far = '{"key":"/k","offset":18446744073709551615,"byte_size":1}';
    expect(parseRegionRegistration(Buffer.from(far)).offset).toBe(2 ** 64);
  });

  it.each([
    ['', emptyBody],
    ['{"byte_size":64}', invalidArg("Shared memory register request has no 'key' field")],
    ['{"key":"/k"}', invalidArg("Shared memory register request has no 'byte_size' field")],
    ['{"key":3,"byte_size":64}', wrongString],
    ['{"key":"/k","byte_size":-5}', wrongUnsigned],
    ['{"key":"/k","offset":1.5,"byte_size":5}', wrongUnsigned],
  ])('are not registered with %s', (body, error) => {
    expect(() => parseRegionRegistration(Buffer.from(body))).toThrow(error);
  });

  it('are listed', () => {
    const region = { name: 'r', key: '/k', offset: 0, byteSize: 64 };
    expect(Buffer.from(regionStatusBody([region])).toString()).toBe(
      '[{"name":"r","key":"/k","offset":0,"byte_size":64}]',
    );
  });
});

describe('log settings', () => {
  it('are read in part, nulls and unknown members passed over', () => {
    const body =
      '{"log_verbose_level":2,"log_info":false,"log_error":null,"log_format":"ISO8601","x":1}';
    expect(parseLogSettings(Buffer.from(body))).toEqual({
      log_verbose_level: 2,
      log_info: false,
      log_format: 'ISO8601',
    });
  });

  it.each([
    ['', emptyBody],
    ['{', notJson],
    ['{"log_info":"yes"}', wrongBoolean],
    ['{"log_verbose_level":-1}', wrongUnsigned],
    ['{"log_verbose_level":"1"}', wrongUnsigned],
    ['{"log_format":1}', wrongString],
    ['{"log_format":"x"}', unavailable('invalid argument for --log_format, got: x')],
    [
      '{"log_file":"/x"}',
      unsupported('log file location can not be updated through network protocol'),
    ],
  ])('refuse %s', (body, error) => {
    expect(() => parseLogSettings(Buffer.from(body))).toThrow(error);
  });

  it('are written with all members', () => {
    const settings = {
      log_file: '',
      log_info: true,
      log_warning: true,
      log_error: false,
      log_verbose_level: 3,
      log_format: 'default',
    };
    expect(Buffer.from(logSettingsBody(settings)).toString()).toBe(
      '{"log_file":"","log_info":true,"log_warning":true,"log_error":false,"log_verbose_level":3,"log_format":"default"}',
    );
  });
});

describe('trace settings', () => {
  it('are strings, lists of them, or null to clear', () => {
    const body = '{"trace_level":["TIMESTAMPS","TENSORS"],"trace_rate":"5","trace_count":null}';
    expect(parseTraceSettings(Buffer.from(body))).toEqual(
      new Map([
        ['trace_level', ['TIMESTAMPS', 'TENSORS']],
        ['trace_rate', ['5']],
        ['trace_count', []],
      ]),
    );
  });

  it.each<[string, InferenceServerError]>([
    ['', emptyBody],
    ['{"trace_rate":5}', wrongString],
    ['{"trace_level":[1]}', wrongString],
    [
      '{"trace_file":"x"}',
      unsupported('trace file location can not be updated through network protocol'),
    ],
  ])('refuse %s', (body, error) => {
    expect(() => parseTraceSettings(Buffer.from(body))).toThrow(error);
  });

  it('are written as the reference server does', () => {
    const settings = new Map([
      ['trace_level', ['OFF']],
      ['trace_rate', ['1000']],
      ['trace_file', ['']],
    ]);
    expect(Buffer.from(traceSettingsBody(settings)).toString()).toBe(
      '{"trace_level":["OFF"],"trace_rate":"1000","trace_file":""}',
    );
  });
});
