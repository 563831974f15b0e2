import { InferenceServerError } from '../errors.js';
import type { RestrictedCategory } from '../protocol/restricted-access.js';
import { jsonHeads, type ReplyHeads, textHeads } from './reply-head.js';
import { decodeSegment, normalizeVersion, type RouteTarget } from './route-target.js';
import type { Exchange } from './transport.js';

/** What a route does: one method of the handlers each. */
export type Action =
  | 'live'
  | 'ready'
  | 'serverMetadata'
  | 'modelList'
  | 'modelReady'
  | 'modelMetadata'
  | 'modelConfig'
  | 'statistics'
  | 'infer'
  | 'generate'
  | 'generateStream'
  | 'repositoryIndex'
  | 'repositoryLoad'
  | 'repositoryUnload'
  | 'systemSharedMemoryStatus'
  | 'systemSharedMemoryRegister'
  | 'systemSharedMemoryUnregister'
  | 'cudaSharedMemoryStatus'
  | 'cudaSharedMemoryRegister'
  | 'cudaSharedMemoryUnregister'
  | 'readLogSettings'
  | 'updateLogSettings'
  | 'readTraceSettings'
  | 'updateTraceSettings'
  | 'metrics';

/** May throw; the answer is then the error's, with the route's content type. */
export type ActionHandler = (exchange: Exchange, target: RouteTarget) => void;

export interface Route {
  readonly category: RestrictedCategory | undefined;
  /** Heads of what the route answers when it fails: the reference server's type, route by route. */
  readonly heads: ReplyHeads;
  readonly actions: Readonly<Partial<Record<string, Action>>>;
}

export interface RouteMatch {
  readonly route: Route;
  /** An error where a part of the path is not a name or version. */
  readonly target: RouteTarget | InferenceServerError;
}

type Row = readonly [
  pattern: string,
  category: RestrictedCategory | undefined,
  heads: ReplyHeads,
  actions: Readonly<Partial<Record<string, Action>>>,
];

const model = '/v2/models/{model}';
const versioned = `${model}[/versions/{version}]`;
const repository = '/v2/repository[/{repository}]';

/**
 * `{x}` is one segment (digits for a version), `[...]` may be missing. Matched whole, in this
 * order, before percent-decoding: `/v2/models/stats` hides the metadata of a model named `stats`.
 */
const rows: readonly Row[] = [
  ['/v2/health/live', 'health', textHeads, { GET: 'live' }],
  ['/v2/health/ready', 'health', textHeads, { GET: 'ready' }],
  ['/v2', 'metadata', jsonHeads, { GET: 'serverMetadata' }],
  ['/v2/models/stats', 'statistics', jsonHeads, { GET: 'statistics' }],
  [`${versioned}/infer`, 'inference', textHeads, { POST: 'infer' }],
  [`${versioned}/generate`, 'inference', jsonHeads, { POST: 'generate' }],
  [`${versioned}/generate_stream`, 'inference', jsonHeads, { POST: 'generateStream' }],
  [versioned, 'metadata', jsonHeads, { GET: 'modelMetadata' }],
  [`${versioned}/ready`, 'health', textHeads, { GET: 'modelReady' }],
  [`${versioned}/config`, 'model-config', jsonHeads, { GET: 'modelConfig' }],
  [`${versioned}/stats`, 'statistics', jsonHeads, { GET: 'statistics' }],
  [
    `${model}/trace/setting`,
    'trace',
    jsonHeads,
    { GET: 'readTraceSettings', POST: 'updateTraceSettings' },
  ],
  [
    '/v2/trace/setting',
    'trace',
    jsonHeads,
    { GET: 'readTraceSettings', POST: 'updateTraceSettings' },
  ],
  ['/v2/logging', 'logging', jsonHeads, { GET: 'readLogSettings', POST: 'updateLogSettings' }],
  [`${repository}/index`, 'model-repository', jsonHeads, { POST: 'repositoryIndex' }],
  [`${repository}/models/{model}/load`, 'model-repository', jsonHeads, { POST: 'repositoryLoad' }],
  [
    `${repository}/models/{model}/unload`,
    'model-repository',
    jsonHeads,
    { POST: 'repositoryUnload' },
  ],
  ...sharedMemoryRows('/v2/systemsharedmemory', [
    'systemSharedMemoryStatus',
    'systemSharedMemoryRegister',
    'systemSharedMemoryUnregister',
  ]),
  ...sharedMemoryRows('/v2/cudasharedmemory', [
    'cudaSharedMemoryStatus',
    'cudaSharedMemoryRegister',
    'cudaSharedMemoryUnregister',
  ]),
];

/** Routes of ours that the reference server answers with 404 or 405. */
const extraRows: readonly Row[] = [
  ['/v2/models', 'model-repository', jsonHeads, { GET: 'modelList' }],
  [
    `${repository}/index`,
    'model-repository',
    jsonHeads,
    { GET: 'repositoryIndex', POST: 'repositoryIndex' },
  ],
];

const metricsRow: Row = ['/metrics', undefined, textHeads, { GET: 'metrics' }];

function sharedMemoryRows(
  prefix: string,
  [status, register, unregister]: readonly [Action, Action, Action],
): readonly Row[] {
  const category = 'shared-memory';
  return [
    [`${prefix}[/region/{region}]/status`, category, jsonHeads, { GET: status }],
    [`${prefix}/region/{region}/register`, category, jsonHeads, { POST: register }],
    [`${prefix}[/region/{region}]/unregister`, category, jsonHeads, { POST: unregister }],
  ];
}

/** Paths whose match is remembered: clients repeat a few paths for hours. */
const matchesMax = 1024;

export class RouteTable {
  readonly #rows: readonly { readonly pattern: RegExp; readonly route: Route }[];
  readonly #matches = new Map<string, RouteMatch>();
  #lastPath = '';
  #lastMatch: RouteMatch | undefined = undefined;

  constructor(options: { readonly hasExtraRoutes: boolean; readonly hasMetrics: boolean }) {
    this.#rows = [
      ...(options.hasExtraRoutes ? extraRows : []),
      ...rows,
      ...(options.hasMetrics ? [metricsRow] : []),
    ].map(([pattern, category, heads, actions]) => ({
      pattern: compilePattern(pattern),
      route: { category, heads, actions },
    }));
  }

  /** Undefined where no route has this path. */
  match(path: string): RouteMatch | undefined {
    // Comparing with the path before is cheaper than hashing a new string.
    if (path === this.#lastPath) return this.#lastMatch;
    const match = this.#matches.get(path) ?? this.#find(path);
    if (match !== undefined) {
      this.#lastPath = path;
      this.#lastMatch = match;
    }
    return match;
  }

  #find(path: string): RouteMatch | undefined {
    for (const { pattern, route } of this.#rows) {
      const groups = pattern.exec(path)?.groups;
      if (groups === undefined) continue;
      const match = { route, target: readTarget(groups) };
      if (this.#matches.size >= matchesMax) this.#matches.clear();
      this.#matches.set(path, match);
      return match;
    }
    return undefined;
  }
}

function compilePattern(pattern: string): RegExp {
  const source = pattern
    .replaceAll('[', '(?:')
    .replaceAll(']', ')?')
    .replaceAll(/\{(\w+)\}/g, (_whole, name: string) =>
      name === 'version' ? '(?<version>[0-9]+)' : `(?<${name}>[^/]+)`,
    );
  // The empty group gives every match its `groups`.
  return new RegExp(`^${source}$(?<end>)`);
}

function readTarget(groups: Record<string, string | undefined>): RouteMatch['target'] {
  const { model: name, version, region, repository: repositoryName } = groups;
  try {
    return {
      modelName: name === undefined ? '' : decodeSegment('model', name),
      modelVersion: version === undefined ? '' : normalizeVersion(version),
      region: region === undefined ? '' : decodeSegment('shared memory region', region),
      repository: repositoryName ?? '',
    };
  } catch (thrown) {
    if (thrown instanceof InferenceServerError) return thrown;
    throw thrown;
  }
}
