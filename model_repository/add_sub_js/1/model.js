/** Sum and difference, request by request: the long form of a JavaScript model. */
export default class AddSub {
  /** Called once an instance, before the first request. May be async, as `execute` may. */
  initialize({ modelConfig }) {
    this.outputNames = modelConfig.output.map(({ name }) => name);
  }

  /** One entry for each request of the batch, in order. */
  execute(requests) {
    return requests.map((request) => {
      const left = request.getInput('INPUT0');
      const right = request.getInput('INPUT1');
      const sum = new Float32Array(left.data.length);
      const difference = new Float32Array(left.data.length);
      for (let index = 0; index < sum.length; index++) {
        sum[index] = left.data[index] + right.data[index];
        difference[index] = left.data[index] - right.data[index];
      }
      const [sumName, differenceName] = this.outputNames;
      return {
        outputs: [
          { name: sumName, datatype: 'FP32', shape: left.shape, data: sum },
          { name: differenceName, datatype: 'FP32', shape: left.shape, data: difference },
        ],
      };
    });
  }
}
