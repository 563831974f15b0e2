/**
 * A place that models come from: a directory, an S3 prefix. A scan only looks; files reach the
 * server by `localize`. Failures reject with `InferenceServerError`; a store that cannot be reached
 * rejects with UNAVAILABLE, and then nothing may be concluded about its models.
 */
export interface ModelRepository {
  /** As the user named it on the command line. */
  readonly location: string;
  /**
   * How long a change should look the same before it is believed, where polls are frequent enough:
   * longer than the pauses of whoever writes there.
   */
  readonly settleNs: number;
  /** All models, by folder name. Dot-names and editors' temporary files do not count. */
  scan(): Promise<RepositoryScan>;
  /** One model's listing as of now; undefined where there is no such folder. */
  look(name: string): Promise<ModelListing | undefined>;
  /**
   * The model's files as a local folder that stays as it is until `release`: for a directory the
   * folder itself, for a store a copy of `versions` and of everything that is not a version.
   */
  localize(listing: ModelListing, versions: readonly string[]): Promise<LocalizedModel>;
  /** Names of the files and folders directly in a version's folder, sorted; copies nothing. */
  versionFiles(listing: ModelListing, version: string): Promise<readonly string[]>;
  /** The text of `config.pbtxt` (or `configs/NAME.pbtxt`); undefined where there is none. */
  readConfig(listing: ModelListing, configName: string): Promise<ConfigFile | undefined>;
  /** Calls `listener` soon after something may have changed; only makes polls come earlier. */
  watch(listener: () => void): Promise<void>;
  close(): Promise<void>;
}

/** One look at a whole repository: folder name → what the folder holds. */
export type RepositoryScan = ReadonlyMap<string, ModelListing>;

/**
 * What a model's folder holds, as fingerprints: equal text means unchanged. They cover names,
 * sizes, modification times and, where those can lie, contents.
 */
export interface ModelListing {
  readonly name: string;
  /** Of `config.pbtxt` and `configs/*.pbtxt`; '' where there are none. */
  readonly configFingerprint: string;
  /** Version (decimal, no leading zero) → fingerprint of everything below its folder. */
  readonly versions: ReadonlyMap<string, string>;
  /** Of everything else: labels, warm-up files, other folders. */
  readonly restFingerprint: string;
  /** What was left out although it looks like part of the model, for the log. */
  readonly warnings: readonly string[];
}

export interface LocalizedModel {
  /** Absolute path of the model's folder. */
  readonly directory: string;
  /** Idempotent. A copy is removed when its last holder has released it. */
  release(): Promise<void>;
}

export interface ConfigFile {
  /** For messages: `config.pbtxt`, `configs/h100.pbtxt`. */
  readonly fileName: string;
  readonly text: string;
}
