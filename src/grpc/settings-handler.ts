import type { JsonValue } from '@bufbuild/protobuf';
import { invalidArg, unavailable, unsupported } from '../errors.js';
import type { LogFormat } from '../observability/text-logger.js';
import { decodeMessage, encodeMessage } from '../protocol/control-proto.js';
import type { InferenceServer } from '../server/inference-server.js';
import type { ServerSettings } from '../server/settings.js';

/** Log and trace settings: each answer is the settings afterwards. */
export class SettingsHandler {
  readonly #server: InferenceServer;
  readonly #settings: ServerSettings;

  constructor(server: InferenceServer, settings: ServerSettings) {
    this.#server = server;
    this.#settings = settings;
  }

  log(message: Uint8Array): Uint8Array {
    const { log, logFile } = this.#settings;
    const update = readLogUpdate(decodeMessage('inference.LogSettingsRequest', message));
    Object.assign(log, update);
    return encodeMessage('inference.LogSettingsResponse', {
      settings: {
        log_file: { string_param: logFile },
        log_info: { bool_param: log.isInfoLogged },
        log_warning: { bool_param: log.isWarningLogged },
        log_error: { bool_param: log.isErrorLogged },
        log_verbose_level: { uint32_param: log.verboseLevel },
        log_format: { string_param: log.format },
      },
    });
  }

  trace(message: Uint8Array): Uint8Array {
    const { modelName, update } = readTraceUpdate(
      decodeMessage('inference.TraceSettingRequest', message),
    );
    if (modelName !== '') this.#server.servedModel(modelName, '');
    this.#settings.trace.update(modelName, update);
    const trace = this.#settings.trace.get(modelName);
    return encodeMessage('inference.TraceSettingResponse', {
      settings: {
        trace_level: { value: trace.levels },
        trace_rate: { value: [String(trace.rate)] },
        trace_count: { value: [String(trace.count)] },
        log_frequency: { value: [String(trace.logFrequency)] },
        trace_file: { value: [trace.file] },
        trace_mode: { value: [trace.mode] },
      },
    });
  }
}

interface LogUpdate {
  isInfoLogged?: boolean;
  isWarningLogged?: boolean;
  isErrorLogged?: boolean;
  verboseLevel?: number;
  format?: LogFormat;
}

const logFormats: readonly LogFormat[] = ['default', 'ISO8601', 'json'];

/** Nothing is changed by a request of which a part is wrong. Unknown settings are passed over. */
function readLogUpdate(request: JsonValue): LogUpdate {
  const update: LogUpdate = {};
  for (const [name, setting] of Object.entries(objectOf(member(request, 'settings')))) {
    switch (name) {
      case 'log_file':
        throw unsupported('log file location can not be updated through network protocol');
      case 'log_info':
        update.isInfoLogged = booleanOf(name, setting);
        break;
      case 'log_warning':
        update.isWarningLogged = booleanOf(name, setting);
        break;
      case 'log_error':
        update.isErrorLogged = booleanOf(name, setting);
        break;
      case 'log_verbose_level':
        update.verboseLevel = unsignedOf(name, setting);
        break;
      case 'log_format':
        update.format = formatOf(name, setting);
        break;
      default:
    }
  }
  return update;
}

function booleanOf(name: string, setting: JsonValue): boolean {
  const value = member(setting, 'bool_param');
  if (typeof value !== 'boolean') throw wrongKind(name, 'bool_param');
  return value;
}

function unsignedOf(name: string, setting: JsonValue): number {
  const value = member(setting, 'uint32_param');
  if (typeof value !== 'number') throw wrongKind(name, 'uint32_param');
  return value;
}

function formatOf(name: string, setting: JsonValue): LogFormat {
  const value = member(setting, 'string_param');
  if (typeof value !== 'string') throw wrongKind(name, 'string_param');
  const format = logFormats.find((known) => known === value);
  if (format === undefined) throw unavailable(`invalid argument for --log_format, got: ${value}`);
  return format;
}

function wrongKind(name: string, expected: string): Error {
  return invalidArg(`invalid value type for '${name}' setting, expected ${expected}.`);
}

interface TraceUpdate {
  readonly modelName: string;
  readonly update: ReadonlyMap<string, readonly string[]>;
}

function readTraceUpdate(request: JsonValue): TraceUpdate {
  const update = new Map<string, readonly string[]>();
  for (const [name, setting] of Object.entries(objectOf(member(request, 'settings')))) {
    if (name === 'trace_file') {
      throw unsupported('trace file location can not be updated through network protocol');
    }
    const values = member(setting, 'value');
    update.set(name, Array.isArray(values) ? values.map(String) : []);
  }
  const modelName = member(request, 'model_name');
  return { modelName: typeof modelName === 'string' ? modelName : '', update };
}

function member(value: JsonValue | undefined, name: string): JsonValue | undefined {
  return objectOf(value)[name];
}

function objectOf(value: JsonValue | undefined): Readonly<Record<string, JsonValue>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : {};
}
