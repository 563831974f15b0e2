"""LitServe with onnxruntime and its own batching.

    litserve_app.py PORT
PEER_MODELS is a JSON list of models: {"name", "file", "threads", "max_batch_size"}.
    POST /NAME  {"x": [[...], ...]}  ->  {"y": [[...], ...]}
"""

from __future__ import annotations

import json
import os
import sys

import litserve
import numpy as np
import onnxruntime as ort

BATCH_TIMEOUT_SECS = 0.001


class OnnxApi(litserve.LitAPI):
    def __init__(self, model: dict) -> None:
        super().__init__(
            max_batch_size=model["max_batch_size"],
            batch_timeout=BATCH_TIMEOUT_SECS,
            api_path=f"/{model['name']}",
        )
        self.model = model

    def setup(self, device: str) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = self.model["threads"]
        self.session = ort.InferenceSession(self.model["file"], options)
        self.output_names = [output.name for output in self.session.get_outputs()]

    def decode_request(self, request: dict) -> dict[str, np.ndarray]:
        return {name: np.asarray(rows, dtype=np.float32) for name, rows in request.items()}

    def batch(self, inputs: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        return {name: np.concatenate([one[name] for one in inputs]) for name in inputs[0]}

    def predict(self, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
        return self.session.run(None, feeds)

    def unbatch(self, answers: list[np.ndarray]) -> list[list[np.ndarray]]:
        return [[array[row : row + 1] for array in answers] for row in range(len(answers[0]))]

    def encode_response(self, answers: list[np.ndarray]) -> dict[str, list]:
        return {name: array.tolist() for name, array in zip(self.output_names, answers)}


if __name__ == "__main__":
    apis = [OnnxApi(model) for model in json.loads(os.environ["PEER_MODELS"])]
    server = litserve.LitServer(apis, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False, log_level="error")
