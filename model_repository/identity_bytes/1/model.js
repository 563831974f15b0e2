/** The short form of a JavaScript model: a function of the whole batch, inputs and outputs by name. */
export default function identity({ INPUT0 }) {
  return { OUTPUT0: INPUT0 };
}
