import type { Logger } from '../observability/logger.js';
import type { LogFormat } from '../observability/text-logger.js';
import {
  logSettingsBody,
  parseLogSettings,
  parseTraceSettings,
  traceSettingsBody,
} from '../protocol/control-wire.js';
import type { InferenceServer } from '../server/inference-server.js';
import type { ServerSettings } from '../server/settings.js';
import { replyJson } from './replies.js';
import { readBody } from './request-body.js';
import type { RouteTarget } from './route-target.js';
import type { BodyLimits, Exchange } from './transport.js';

/** Log and trace settings: each answer is the settings afterwards. */
export class SettingsHandler {
  readonly #server: InferenceServer;
  readonly #settings: ServerSettings;
  readonly #limits: BodyLimits;
  readonly #logger: Logger;

  constructor(
    server: InferenceServer,
    settings: ServerSettings,
    limits: BodyLimits,
    logger: Logger,
  ) {
    this.#server = server;
    this.#settings = settings;
    this.#limits = limits;
    this.#logger = logger;
  }

  readLog(exchange: Exchange): void {
    const { log, logFile } = this.#settings;
    const body = logSettingsBody({
      log_file: logFile,
      log_info: log.isInfoLogged,
      log_warning: log.isWarningLogged,
      log_error: log.isErrorLogged,
      log_verbose_level: log.verboseLevel,
      log_format: log.format,
    });
    replyJson(exchange, body);
  }

  updateLog(exchange: Exchange): void {
    readBody(exchange, this.#limits, this.#logger, (body) => {
      const update = parseLogSettings(body);
      const { log } = this.#settings;
      log.isInfoLogged = update.log_info ?? log.isInfoLogged;
      log.isWarningLogged = update.log_warning ?? log.isWarningLogged;
      log.isErrorLogged = update.log_error ?? log.isErrorLogged;
      log.verboseLevel = update.log_verbose_level ?? log.verboseLevel;
      log.format = toLogFormat(update.log_format) ?? log.format;
      this.readLog(exchange);
    });
  }

  readTrace(exchange: Exchange, { modelName }: RouteTarget): void {
    this.#requireModel(modelName);
    this.#replyTrace(exchange, modelName);
  }

  updateTrace(exchange: Exchange, { modelName }: RouteTarget): void {
    this.#requireModel(modelName);
    readBody(exchange, this.#limits, this.#logger, (body) => {
      this.#settings.trace.update(modelName, parseTraceSettings(body));
      this.#replyTrace(exchange, modelName);
    });
  }

  /** Throws NOT_FOUND or UNAVAILABLE. */
  #requireModel(modelName: string): void {
    if (modelName !== '') this.#server.servedModel(modelName, '');
  }

  #replyTrace(exchange: Exchange, modelName: string): void {
    const trace = this.#settings.trace.get(modelName);
    const settings = new Map<string, readonly string[]>([
      ['trace_level', trace.levels],
      ['trace_rate', [String(trace.rate)]],
      ['trace_count', [String(trace.count)]],
      ['log_frequency', [String(trace.logFrequency)]],
      ['trace_file', [trace.file]],
      ['trace_mode', [trace.mode]],
    ]);
    replyJson(exchange, traceSettingsBody(settings));
  }
}

function toLogFormat(name: string | undefined): LogFormat | undefined {
  return name === 'default' || name === 'ISO8601' || name === 'json' ? name : undefined;
}
