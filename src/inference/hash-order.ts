/*
 * The reference server keeps a request's inputs in a hash table and checks them in its order, which
 * decides which of several faults a client is told and how messages list inputs. This is that
 * order: GNU libstdc++'s `std::unordered_map<std::string, T>`, whose hash is MurmurHash64A. It is
 * computed only when a request is refused.
 */

/** `names`, which are distinct, in the order in which the reference server walks them. */
export function inHashOrder(names: readonly string[]): string[] {
  let buckets = firstBuckets;
  let ordered: string[] = [];
  names.forEach((name, index) => {
    if (index + 1 > buckets) {
      buckets = nextPrime(buckets * 2);
      // A rehash inserts all nodes anew, in their present order.
      const before = ordered;
      ordered = [];
      for (const known of before) insert(ordered, known, buckets);
    }
    insert(ordered, name, buckets);
  });
  return ordered;
}

const firstBuckets = 13;

/** A node goes before the others of its bucket, which stay together, or to the very front. */
function insert(ordered: string[], name: string, buckets: number): void {
  const bucket = bucketOf(name, buckets);
  const peer = ordered.findIndex((known) => bucketOf(known, buckets) === bucket);
  ordered.splice(Math.max(peer, 0), 0, name);
}

function bucketOf(name: string, buckets: number): number {
  return Number(murmurHash(Buffer.from(name, 'utf8')) % BigInt(buckets));
}

function nextPrime(atLeast: number): number {
  for (let candidate = atLeast; ; candidate++) {
    let isPrime = true;
    for (let divisor = 2; divisor * divisor <= candidate && isPrime; divisor++) {
      isPrime = candidate % divisor !== 0;
    }
    if (isPrime) return candidate;
  }
}

/** MurmurHash64A (Austin Appleby, public domain) with libstdc++'s seed. */
function murmurHash(bytes: Buffer): bigint {
  const multiplier = 0xc6a4a7935bd1e995n;
  const multiply = (value: bigint): bigint => BigInt.asUintN(64, value * multiplier);
  const shift = (value: bigint): bigint => value ^ (value >> 47n);
  let hash = 0xc70f6907n ^ multiply(BigInt(bytes.byteLength));
  let at = 0;
  for (; at + 8 <= bytes.byteLength; at += 8) {
    hash = multiply(hash ^ multiply(shift(multiply(bytes.readBigUInt64LE(at)))));
  }
  if (at < bytes.byteLength) {
    let rest = 0n;
    for (let index = bytes.byteLength - 1; index >= at; index--) {
      rest = (rest << 8n) | BigInt(bytes[index] ?? 0);
    }
    hash = multiply(hash ^ rest);
  }
  return shift(multiply(shift(hash)));
}
