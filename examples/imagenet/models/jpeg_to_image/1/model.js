import jpeg from 'jpeg-js';

/** Width and height of the network's pictures. */
const side = 224;
/** The network was trained on the middle of pictures: 32 pixels of 256 are cut off. */
const middle = side / (side + 32);
const channels = 3;
const pixels = side * side;
const decoding = { formatAsRGBA: false, useTArray: true, maxResolutionInMP: 24 };

export default class JpegToImage {
  execute(requests) {
    return requests.map((request) => {
      const files = request.getInput('JPEG').data;
      const images = new Float32Array(files.length * channels * pixels);
      try {
        for (const [index, file] of files.entries()) {
          const image = images.subarray(index * channels * pixels, (index + 1) * channels * pixels);
          fillImage(image, jpeg.decode(file, decoding));
        }
      } catch (error) {
        return Object.assign(new Error(`not a JPEG that can be read: ${error.message}`), {
          code: 'INVALID_ARG',
        });
      }
      return { outputs: [{ name: 'IMAGE', data: images }] };
    });
  }
}

/** Fills `image`, [3, 224, 224], from the middle of a decoded picture, [height, width, 3]. */
function fillImage(image, { width, height, data }) {
  const size = Math.min(width, height) * middle;
  const columns = axisWeights((width - size) / 2, size, width);
  const rows = axisWeights((height - size) / 2, size, height);
  // Rows first: `narrow` is [height, 224, 3], and only where the second pass looks.
  const narrow = new Float32Array(height * side * channels);
  for (let y = rows[0].first; y < rows[side - 1].first + rows[side - 1].weights.length; y++) {
    for (let x = 0; x < side; x++) {
      const { first, weights } = columns[x];
      for (let channel = 0; channel < channels; channel++) {
        let sum = 0;
        for (let tap = 0; tap < weights.length; tap++) {
          sum += weights[tap] * data[(y * width + first + tap) * channels + channel];
        }
        narrow[(y * side + x) * channels + channel] = sum;
      }
    }
  }
  for (let y = 0; y < side; y++) {
    const { first, weights } = rows[y];
    for (let x = 0; x < side; x++) {
      for (let channel = 0; channel < channels; channel++) {
        let sum = 0;
        for (let tap = 0; tap < weights.length; tap++) {
          sum += weights[tap] * narrow[((first + tap) * side + x) * channels + channel];
        }
        image[channel * pixels + y * side + x] = (sum - 127) / 128;
      }
    }
  }
}

/**
 * For each of the 224 places on an axis, the source pixels that it is the weighted mean of: a
 * triangle as wide as the scale, so that a large picture becomes smooth and not noisy.
 */
function axisWeights(start, size, length) {
  const scale = size / side;
  const reach = Math.max(scale, 1);
  return Array.from({ length: side }, (_, place) => {
    const centre = start + (place + 0.5) * scale - 0.5;
    const first = Math.max(0, Math.ceil(centre - reach));
    const last = Math.min(length - 1, Math.floor(centre + reach));
    const weights = [];
    for (let pixel = first; pixel <= last; pixel++) {
      weights.push(1 - Math.abs(pixel - centre) / reach);
    }
    const total = weights.reduce((sum, weight) => sum + weight, 0);
    return { first, weights: Float32Array.from(weights, (weight) => weight / total) };
  });
}
