import { invalidArg } from '../errors.js';
import type { Logger } from '../observability/logger.js';
import { parseRegionRegistration, regionStatusBody } from '../protocol/control-wire.js';
import type { SharedMemoryRegistry } from '../server/shared-memory.js';
import { emptyBody, replyJson } from './replies.js';
import { readBody } from './request-body.js';
import type { RouteTarget } from './route-target.js';
import type { BodyLimits, Exchange } from './transport.js';

/** The shared memory extensions; a server without GPUs has nothing to share for CUDA. */
export class SharedMemoryHandler {
  readonly #regions: SharedMemoryRegistry;
  readonly #limits: BodyLimits;
  readonly #logger: Logger;

  constructor(regions: SharedMemoryRegistry, limits: BodyLimits, logger: Logger) {
    this.#regions = regions;
    this.#limits = limits;
    this.#logger = logger;
  }

  status(exchange: Exchange, { region }: RouteTarget): void {
    replyJson(exchange, regionStatusBody(this.#regions.status(region)));
  }

  register(exchange: Exchange, { region }: RouteTarget): void {
    readBody(exchange, this.#limits, this.#logger, (body) => {
      const { key, offset, byteSize } = parseRegionRegistration(body);
      this.#regions.register(region, key, offset, byteSize);
      replyJson(exchange, emptyBody);
    });
  }

  /** What the body says, if it says anything, does not matter. */
  unregister(exchange: Exchange, { region }: RouteTarget): void {
    if (region === '') this.#regions.unregisterAll();
    else this.#regions.unregister(region);
    replyJson(exchange, emptyBody);
  }

  cudaStatus(exchange: Exchange): void {
    replyJson(exchange, regionStatusBody([]));
  }

  cudaRegister(_exchange: Exchange, { region }: RouteTarget): void {
    throw invalidArg(
      `failed to register CUDA shared memory region: '${region}', GPUs not supported`,
    );
  }

  cudaUnregister(exchange: Exchange): void {
    replyJson(exchange, emptyBody);
  }
}
