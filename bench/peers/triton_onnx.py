"""A model of the reference server's Python backend: all requests of a batch in one onnxruntime call."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args: dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        options = ort.SessionOptions()
        options.intra_op_num_threads = int(parameters["threads"])
        self.session = ort.InferenceSession(parameters["file"], options)
        self.inputs = [tensor.name for tensor in self.session.get_inputs()]
        self.outputs = [tensor.name for tensor in self.session.get_outputs()]

    def execute(self, requests: list) -> list:
        rows = {
            name: [pb_utils.get_input_tensor_by_name(one, name).as_numpy() for one in requests]
            for name in self.inputs
        }
        answers = self.session.run(None, {name: np.concatenate(rows[name]) for name in rows})
        responses = []
        start = 0
        for part in rows[self.inputs[0]]:
            end = start + len(part)
            tensors = [
                pb_utils.Tensor(name, array[start:end]) for name, array in zip(self.outputs, answers)
            ]
            responses.append(pb_utils.InferenceResponse(output_tensors=tensors))
            start = end
        return responses
