import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { internal, invalidArg, notFound } from '../errors.js';
import { type ModelId, modelKey } from '../inference/model-key.js';
import { completeModelConfig } from '../model-config/complete-model-config.js';
import type { ModelConfig } from '../model-config/model-config.js';
import { parseModelConfigJson, parseModelConfigText } from '../model-config/read-model-config.js';
import { validateModelConfigBeforeLoad } from '../model-config/validate-model-config.js';
import { noVersionMessage, versionsToServe } from '../model-config/version-policy.js';
import type { Logger } from '../observability/logger.js';
import type { ModelListing } from '../repository/model-repository.js';
import type { LoadOverride } from './inference-server.js';
import { isSameListing, type ModelRevision } from './model-revision.js';
import type { ModelSource } from './repository-set.js';

/** How configurations are found and completed. */
export interface RevisionReaderOptions {
  /** `--model-config-name`; '' is `config.pbtxt`. */
  readonly configName: string;
  /** Else every model needs a configuration. */
  readonly isAutoCompleteEnabled: boolean;
}

/**
 * Makes a revision of a model's files: which configuration, which versions. Fails with the reason
 * why a model cannot even be tried: then it is not loaded and what serves goes on.
 */
export class RevisionReader {
  readonly #options: RevisionReaderOptions;
  readonly #logger: Logger;
  /** Polls read hundreds of models again and again; an unchanged listing gives the same revision. */
  readonly #lastRead = new Map<string, ModelRevision>();

  constructor(options: RevisionReaderOptions, logger: Logger) {
    this.#options = options;
    this.#logger = logger;
  }

  async read(source: ModelSource): Promise<ModelRevision> {
    const { id, listing } = source;
    const key = modelKey(id);
    const last = this.#lastRead.get(key);
    if (last !== undefined && isSameListing(last.listing, listing)) return last;
    this.#lastRead.delete(key);
    const file = await source.repository.readConfig(listing, this.#options.configName);
    if (file === undefined && !this.#options.isAutoCompleteEnabled) {
      const path = `${source.repository.location}/${listing.name}/config.pbtxt`;
      throw internal(`failed to open text file for read ${path}: No such file or directory`);
    }
    const config = parseModelConfigText(file?.text ?? '', file?.fileName ?? 'config.pbtxt');
    const revision = await this.#complete(source, config, 'repository');
    this.#lastRead.set(key, revision);
    return revision;
  }

  /** For a load call: `override` replaces the configuration, or all files, of `source`. */
  async readForLoad(
    id: ModelId,
    source: ModelSource | undefined,
    override: LoadOverride,
  ): Promise<ModelRevision> {
    if (override.files.size > 0) return this.#readFiles(id, override);
    if (source === undefined) {
      throw notFound(`model '${id.name}' not found in any model repository.`);
    }
    if (override.config === undefined) return this.read(source);
    const config = parseModelConfigJson(override.config);
    return this.#complete(source, config, 'config-override');
  }

  async #complete(
    source: ModelSource,
    config: ModelConfig,
    origin: 'repository' | 'config-override',
  ): Promise<ModelRevision> {
    const { id, repository, listing } = source;
    const available = [...listing.versions.keys()];
    const versionFiles = await listVersionFiles(source, config, available);
    const completed = completeModelConfig(config, { modelName: listing.name, versionFiles });
    validateModelConfigBeforeLoad(completed, listing.name);
    const { versions, warnings } = versionsToServe(completed.version_policy, available);
    const none = versions.length === 0 ? [noVersionMessage(listing.name)] : [];
    for (const warning of [...listing.warnings, ...warnings, ...none]) {
      this.#logger.warning(`model '${listing.name}': ${warning}`);
    }
    return {
      id,
      listing,
      config: completed,
      versions,
      origin,
      localize: () => repository.localize(listing, versions),
    };
  }

  /** Builds the model from the given files alone, in a folder of its own. */
  async #readFiles(id: ModelId, override: LoadOverride): Promise<ModelRevision> {
    const { name } = id;
    if (override.config === undefined) {
      throw invalidArg(
        `failed to load '${name}': Load parameter 'config' must be specified for model file override`,
      );
    }
    const files = checkedFiles(name, override.files);
    const versions = new Set<string>();
    for (const file of files.keys()) {
      const folder = file.split('/')[0] ?? '';
      if (/^(0|[1-9]\d*)$/.test(folder)) versions.add(folder);
    }
    const first = [...versions].sort()[0];
    const versionFiles = [...files.keys()]
      .filter((file) => file.startsWith(`${first}/`))
      .map((file) => file.split('/')[1] ?? '');
    const config = completeModelConfig(parseModelConfigJson(override.config), {
      modelName: name,
      versionFiles,
    });
    validateModelConfigBeforeLoad(config, name);
    const listing: ModelListing = {
      name,
      configFingerprint: '',
      versions: new Map([...versions].map((version) => [version, ''])),
      restFingerprint: '',
      warnings: [],
    };
    return {
      id,
      listing,
      config,
      versions: versionsToServe(config.version_policy, [...versions]).versions,
      origin: 'file-override',
      localize: () => writeFiles(files),
    };
  }
}

/** Only where the configuration names no format does it take a look into the folder. */
async function listVersionFiles(
  source: ModelSource,
  config: ModelConfig,
  available: readonly string[],
): Promise<readonly string[]> {
  const isNamed = config.backend !== '' || config.platform !== '';
  const first = [...available].sort()[0];
  const needsLook = !isNamed || config.backend === 'javascript' || config.backend === 'js';
  if (config.ensemble_scheduling !== undefined || !needsLook || first === undefined) return [];
  return source.repository.versionFiles(source.listing, first);
}

/** Paths stay below the model's folder, whatever they hold. */
function checkedFiles(
  name: string,
  files: ReadonlyMap<string, Uint8Array>,
): ReadonlyMap<string, Uint8Array> {
  const checked = new Map<string, Uint8Array>();
  for (const [given, content] of files) {
    const normalized = path.posix.normalize(given);
    const isInside =
      given !== '' &&
      !given.includes('\0') &&
      !given.includes('\\') &&
      !path.posix.isAbsolute(normalized) &&
      normalized !== '.' &&
      normalized.split('/')[0] !== '..';
    if (!isInside) {
      throw invalidArg(
        `model '${name}': Invalid file parameter '${given}' with normalized path '${normalized}' must stay within model directory.`,
      );
    }
    checked.set(normalized, content);
  }
  return checked;
}

async function writeFiles(files: ReadonlyMap<string, Uint8Array>) {
  const directory = await mkdtemp(path.join(tmpdir(), 'nereid-model-'));
  for (const [file, content] of files) {
    const target = path.join(directory, file);
    await mkdir(path.dirname(target), { recursive: true });
    await writeFile(target, content);
  }
  return {
    directory,
    release: () => rm(directory, { recursive: true, force: true }),
  };
}
