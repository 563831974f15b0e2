import { invalidArg } from '../errors.js';

/** The platform of a model that is a graph of other models; no backend runs it. */
export const ensemblePlatform = 'ensemble';
/** The platform of TensorRT engines. */
export const tensorrtPlatform = 'tensorrt_plan';

/** What is known of a kind of model from its names alone. */
export interface BackendFormat {
  readonly backend: string;
  /** '' where the backend has only one kind of file and so no platform names. */
  readonly platform: string;
  /** The first is the default; any of them in a version's folder tells the format. */
  readonly filenames: readonly string[];
}

/**
 * Formats in the order in which a folder's files are tried. The first row of a backend is its
 * default. Not all of these backends exist here: a model of one that does not is named correctly,
 * and refused when it loads.
 */
const backendFormats: readonly BackendFormat[] = [
  {
    backend: 'tensorflow',
    platform: 'tensorflow_savedmodel',
    filenames: ['model.savedmodel'],
  },
  {
    backend: 'tensorflow',
    platform: 'tensorflow_graphdef',
    filenames: ['model.graphdef'],
  },
  { backend: 'tensorrt', platform: tensorrtPlatform, filenames: ['model.plan'] },
  {
    backend: 'onnxruntime',
    platform: 'onnxruntime_onnx',
    filenames: ['model.onnx'],
  },
  { backend: 'openvino', platform: '', filenames: ['model.xml'] },
  { backend: 'pytorch', platform: 'pytorch_libtorch', filenames: ['model.pt'] },
  { backend: 'pytorch', platform: 'torch_aoti', filenames: ['model.pt2'] },
  { backend: 'python', platform: '', filenames: ['model.py'] },
  { backend: 'javascript', platform: '', filenames: ['model.js', 'model.mjs'] },
];

const backendAliases: ReadonlyMap<string, string> = new Map([['js', 'javascript']]);

/** Backends that this server has. */
export const servedBackends: ReadonlySet<string> = new Set([
  'onnxruntime',
  'javascript',
  'python',
  'pytorch',
  'tensorflow',
  'tensorrt',
]);

/** Backends of which two instances run on a CPU unless a count is given. */
const twoInstanceBackends: ReadonlySet<string> = new Set(['onnxruntime', 'tensorflow']);

/** The names that a configuration leaves out, or ''. */
export interface FormatNames {
  readonly platform: string;
  readonly backend: string;
  readonly defaultModelFilename: string;
}

/**
 * Fills whichever of platform, backend and file name are missing from the others, from `files` (of
 * the first version's folder), or from a model name of the form `name.backend`. INVALID_ARG where
 * nothing tells. Contradictions are left for `validateModelConfig`.
 */
export function completeFormatNames(
  given: FormatNames,
  modelName: string,
  files: readonly string[],
): FormatNames {
  const { platform, defaultModelFilename } = given;
  const backend = backendAliases.get(given.backend) ?? given.backend;
  if (platform === ensemblePlatform) return { ...given, backend };
  const format = formatOf({ platform, backend, defaultModelFilename }, files);
  if (format !== undefined) {
    const present = format.filenames.find((filename) => files.includes(filename));
    return {
      platform: platform === '' ? format.platform : platform,
      backend: backend === '' ? format.backend : backend,
      defaultModelFilename:
        defaultModelFilename === '' ? (present ?? format.filenames[0] ?? '') : defaultModelFilename,
    };
  }
  if (backend !== '' || platform !== '' || defaultModelFilename !== '')
    return { ...given, backend };
  return namesFromModelName(modelName, files);
}

/** Every platform name, for messages. */
export function platformNames(): readonly string[] {
  const named = backendFormats.map(({ platform }) => platform).filter((name) => name !== '');
  return [ensemblePlatform, ...named];
}

/** False where `platform` names a format of another backend, or is missing where it must not be. */
export function isPlatformOfBackend(platform: string, backend: string): boolean {
  const owner = backendFormats.find((format) => format.platform === platform && platform !== '');
  if (owner !== undefined) return owner.backend === backend;
  return !backendFormats.some((format) => format.backend === backend && format.platform !== '');
}

/** Instances of a CPU group that names no count. */
export function defaultCpuInstanceCount(backend: string): number {
  return twoInstanceBackends.has(backend) ? 2 : 1;
}

function formatOf(given: FormatNames, files: readonly string[]): BackendFormat | undefined {
  const { platform, backend, defaultModelFilename } = given;
  const candidates = backendFormats.filter(
    (format) =>
      (backend === '' || format.backend === backend) &&
      (platform === '' || format.platform === platform || format.platform === ''),
  );
  if (platform !== '') {
    const named =
      candidates.find((format) => format.platform === platform) ??
      // A backend without platform names is itself named as a platform: `platform: "python"`.
      candidates.find((format) => format.platform === '' && format.backend === platform);
    return named ?? (backend === '' ? undefined : candidates[0]);
  }
  if (defaultModelFilename !== '') {
    const named = candidates.find((format) => format.filenames.includes(defaultModelFilename));
    if (named !== undefined) return named;
  } else {
    const present = candidates.find((format) =>
      format.filenames.some((filename) => files.includes(filename)),
    );
    if (present !== undefined) return present;
  }
  return backend === '' ? undefined : candidates[0];
}

/** What was found where a model's file should be: most models without a backend are misplaced. */
function describeFiles(modelName: string, files: readonly string[]): string {
  const served = backendFormats.filter(({ backend }) => servedBackends.has(backend));
  const wanted = served.flatMap(({ filenames }) => filenames).join(', ');
  return files.length === 0
    ? `No files in a version folder like '${modelName}/1'; expected one of: ${wanted}`
    : `Its version folder has ${files.slice(0, 10).join(', ')}; expected one of: ${wanted}`;
}

function namesFromModelName(modelName: string, files: readonly string[]): FormatNames {
  const suffix = modelName.slice(modelName.lastIndexOf('.') + 1);
  if (suffix === modelName || suffix === '') {
    throw invalidArg(
      `Invalid model name: Could not determine backend for model '${modelName}' with no backend ` +
        "in model configuration. Expected model name of the form 'model.<backend_name>'. " +
        describeFiles(modelName, files),
    );
  }
  const backend = backendAliases.get(suffix) ?? suffix;
  const known = backendFormats.find((format) => format.backend === backend);
  return {
    platform: known?.platform ?? '',
    backend,
    defaultModelFilename: known?.filenames[0] ?? `model.${suffix}`,
  };
}
