import type { Clock } from '../clock.js';
import { unavailable } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { ForwardedHeaders } from '../protocol/forwarded-headers.js';
import {
  RestrictedAccess,
  type RestrictedCategory,
  type Restrictions,
} from '../protocol/restricted-access.js';
import type { InferenceServer } from '../server/inference-server.js';
import type { ServerSettings } from '../server/settings.js';
import type { SharedMemoryRegistry } from '../server/shared-memory.js';
import { Carrier, type CarrierOptions, type Method } from './carrier.js';
import { ControlHandler } from './control-handler.js';
import { HealthHandler } from './health-handler.js';
import { type InferDeps, InferHandler } from './infer-handler.js';
import { type ControlMethod, MethodTable } from './method-table.js';
import { ReflectionHandler } from './reflection-handler.js';
import { SettingsHandler } from './settings-handler.js';
import { SharedMemoryHandler } from './shared-memory-handler.js';
import { StreamInferHandler } from './stream-infer-handler.js';

export interface GrpcServerOptions extends CarrierOptions {
  /** `--grpc-header-forward-pattern`; undefined forwards none. */
  readonly headerForwardPattern: RegExp | undefined;
  /** `--grpc-restricted-protocol`. */
  readonly restrictions: Restrictions;
}

export interface GrpcServerDeps {
  readonly logger: Logger;
  readonly regions: SharedMemoryRegistry;
  readonly settings: ServerSettings;
  readonly clock: Clock;
}

export interface ListeningAt {
  readonly address: string;
  readonly port: number;
}

/** The gRPC front end. */
export interface GrpcServer {
  /** Resolves when calls are taken; rejects with UNAVAILABLE where the address cannot be had. */
  listen(): Promise<ListeningAt>;
  /**
   * Takes no new connections and calls; resolves when the calls under way have ended. Streams on
   * which nothing is under way are ended with UNAVAILABLE.
   */
  drain(): Promise<void>;
  /** Ends every connection now. */
  destroy(): void;
}

/** Throws INVALID_ARG for options that cannot be used, such as a key that does not fit. */
export function createGrpcServer(
  options: GrpcServerOptions,
  server: InferenceServer,
  deps: GrpcServerDeps,
): GrpcServer {
  const carrier = new Carrier(options, makeMethods(options, server, deps), deps.logger);
  let isListening = false;
  return {
    async listen() {
      if (isListening) throw unavailable('the gRPC server listens already');
      isListening = true;
      return { address: options.address, port: await carrier.listen() };
    },
    async drain() {
      if (isListening) await carrier.drain();
    },
    destroy() {
      carrier.destroy();
    },
  };
}

/** On gRPC, unlike HTTP, the names of headers that open a group get this in front. */
const restrictedHeaderPrefix = 'triton-grpc-protocol-';

const inference = '/inference.GRPCInferenceService';
const health = '/grpc.health.v1.Health';
const reflections = [
  'grpc.reflection.v1.ServerReflection',
  'grpc.reflection.v1alpha.ServerReflection',
];

function makeMethods(
  options: GrpcServerOptions,
  server: InferenceServer,
  deps: GrpcServerDeps,
): ReadonlyMap<string, Method> {
  const table = new MethodTable(new RestrictedAccess(options.restrictions, restrictedHeaderPrefix));
  const { logger, regions, settings, clock } = deps;
  const forwardedHeaders = new ForwardedHeaders(options.headerForwardPattern);
  addInferMethods(table, { server, regions, forwardedHeaders }, logger);
  addControlMethods(table, server);
  addSharedMemoryMethods(table, regions);
  const setting = new SettingsHandler(server, settings);
  table.control(`${inference}/LogSettings`, 'logging', (message) => setting.log(message));
  table.control(`${inference}/TraceSetting`, 'trace', (message) => setting.trace(message));
  addHealthMethods(table, new HealthHandler(server, clock));
  addReflectionMethods(table);
  return table.methods;
}

function addInferMethods(table: MethodTable, deps: InferDeps, logger: Logger): void {
  const infer = new InferHandler(deps);
  const stream = new StreamInferHandler(deps, logger);
  table.unary(`${inference}/ModelInfer`, 'inference', (call) => infer.handle(call));
  table.inferStream(`${inference}/ModelStreamInfer`, (call, refusal) => stream.open(call, refusal));
}

function addControlMethods(table: MethodTable, server: InferenceServer): void {
  const handler = new ControlHandler(server);
  const add = (name: string, category: RestrictedCategory, answer: ControlMethod): void => {
    table.control(`${inference}/${name}`, category, answer);
  };
  add('ServerLive', 'health', () => handler.serverLive());
  add('ServerReady', 'health', () => handler.serverReady());
  add('ModelReady', 'health', (message) => handler.modelReady(message));
  add('ServerMetadata', 'metadata', () => handler.serverMetadata());
  add('ModelMetadata', 'metadata', (message) => handler.modelMetadata(message));
  add('ModelConfig', 'model-config', (message) => handler.modelConfig(message));
  add('ModelStatistics', 'statistics', (message) => handler.modelStatistics(message));
  add('RepositoryIndex', 'model-repository', (message) => handler.repositoryIndex(message));
  add('RepositoryModelLoad', 'model-repository', (message) => handler.load(message));
  add('RepositoryModelUnload', 'model-repository', (message) => handler.unload(message));
}

function addSharedMemoryMethods(table: MethodTable, regions: SharedMemoryRegistry): void {
  const handler = new SharedMemoryHandler(regions);
  const add = (name: string, answer: ControlMethod): void => {
    table.control(`${inference}/${name}`, 'shared-memory', answer);
  };
  add('SystemSharedMemoryStatus', (message) => handler.status(message));
  add('SystemSharedMemoryRegister', (message) => handler.register(message));
  add('SystemSharedMemoryUnregister', (message) => handler.unregister(message));
  add('CudaSharedMemoryStatus', () => handler.cudaStatus());
  add('CudaSharedMemoryRegister', (message) => handler.cudaRegister(message));
  add('CudaSharedMemoryUnregister', () => handler.cudaUnregister());
}

function addHealthMethods(table: MethodTable, handler: HealthHandler): void {
  table.control(`${health}/Check`, 'health', (message) => handler.check(message));
  table.control(`${health}/List`, 'health', () => handler.list());
  table.stream(`${health}/Watch`, 'health', (call) => handler.watch(call));
}

function addReflectionMethods(table: MethodTable): void {
  const services = [inference.slice(1), health.slice(1), ...reflections];
  const handler = new ReflectionHandler(services);
  for (const service of reflections) {
    table.stream(`/${service}/ServerReflectionInfo`, undefined, (call) => handler.open(call));
  }
}
