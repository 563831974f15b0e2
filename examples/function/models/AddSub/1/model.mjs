/** @type {import('nereid/model').BatchFunction} */
export default function addSub({ input_a, input_b }) {
  return {
    add: input_a.data.map((value, index) => value + input_b.data[index]),
    sub: input_a.data.map((value, index) => value - input_b.data[index]),
  };
}
