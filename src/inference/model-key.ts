/** A model, among those of one name that `--model-namespacing` lets several repositories have. */
export interface ModelId {
  /** The location of its repository; '' where namespacing is off. */
  readonly namespace: string;
  readonly name: string;
}

/**
 * Text that stands for one model wherever models are looked up and told apart: its name, and with
 * namespacing `NAMESPACE::NAME`, which is also how the reference server writes it.
 */
export function modelKey({ namespace, name }: ModelId): string {
  return namespace === '' ? name : `${namespace}::${name}`;
}
