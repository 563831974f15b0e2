/*
 * FP16 (IEEE 754 binary16) and BF16 (the upper half of a binary32) as 16-bit patterns. Conversions
 * to them round to nearest, ties to even, straight from the double.
 */

/** The number of an FP16 pattern; exact. */
export function fp16ToNumber(bits: number): number {
  return decodeHalf(bits, 10, 15);
}

/** The nearest FP16 pattern; beyond its range an infinity. */
export function numberToFp16(value: number): number {
  return encodeHalf(value, 10, 15);
}

/** The number of a BF16 pattern; exact. */
export function bf16ToNumber(bits: number): number {
  return decodeHalf(bits, 7, 127);
}

/** The nearest BF16 pattern; beyond its range an infinity. */
export function numberToBf16(value: number): number {
  return encodeHalf(value, 7, 127);
}

/** 1 sign bit, then `15 - fractionBits` of exponent, then `fractionBits`. */
function decodeHalf(bits: number, fractionBits: number, bias: number): number {
  const scale = 2 ** fractionBits;
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits & 0x7fff) >>> fractionBits;
  const fraction = bits & (scale - 1);
  if (exponent === 2 * bias + 1)
    return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * (fraction / scale) * 2 ** (1 - bias);
  return sign * (1 + fraction / scale) * 2 ** (exponent - bias);
}

function encodeHalf(value: number, fractionBits: number, bias: number): number {
  const scale = 2 ** fractionBits;
  const infinity = (2 * bias + 1) << fractionBits;
  if (Number.isNaN(value)) return infinity | (scale >> 1);
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  if (magnitude === Number.POSITIVE_INFINITY) return sign | infinity;
  const exponent = Math.max(exponentOf(magnitude), 1 - bias);
  // In units of the last place: [0, scale) is subnormal, [scale, 2 * scale] normal, and a carry out
  // of the fraction adds one to the exponent by itself.
  const units = roundHalfEven((magnitude / 2 ** exponent) * scale);
  const pattern = (exponent + bias - 1) * scale + units;
  return sign | Math.min(pattern, infinity);
}

function exponentOf(magnitude: number): number {
  if (magnitude === 0) return Number.NEGATIVE_INFINITY;
  const guess = Math.floor(Math.log2(magnitude));
  if (2 ** guess > magnitude) return guess - 1;
  return 2 ** (guess + 1) <= magnitude ? guess + 1 : guess;
}

function roundHalfEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}
