"""Models that call other models (business logic scripting), on the real server."""

from __future__ import annotations

import unittest

import numpy as np
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from .running_server import RunningServer

CALLER_CONFIG = """backend: "python"
input [
  { name: "A" data_type: TYPE_FP32 dims: [ 1, 16 ] },
  { name: "B" data_type: TYPE_FP32 dims: [ 1, 16 ] },
  { name: "MODEL" data_type: TYPE_STRING dims: [ 1 ] }
]
output [ { name: "SUM" data_type: TYPE_FP32 dims: [ 1, 16 ] } ]
instance_group [ { kind: KIND_CPU count: 1 } ]
"""

CALLER_MODEL = '''import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self._call(request) for request in requests]

    def _call(self, request):
        a, b, model = (
            pb_utils.get_input_tensor_by_name(request, name).as_numpy()
            for name in ("A", "B", "MODEL")
        )
        name = model[0].decode()
        inputs = [pb_utils.Tensor("INPUT0", a), pb_utils.Tensor("INPUT1", b)]
        if name == "caller":
            inputs = [
                pb_utils.Tensor("A", a),
                pb_utils.Tensor("B", b),
                pb_utils.Tensor("MODEL", model),
            ]
        call = pb_utils.InferenceRequest(
            model_name=name,
            inputs=inputs,
            requested_output_names=["SUM" if name == "caller" else "OUTPUT0"],
        )
        response = call.exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        output = response.output_tensors()[0].as_numpy()
        return pb_utils.InferenceResponse([pb_utils.Tensor("SUM", output)])
'''


class BusinessLogicTest(unittest.TestCase):
    server: RunningServer
    client: httpclient.InferenceServerClient

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = RunningServer()
        version = cls.server.repository / "caller" / "1"
        version.mkdir(parents=True)
        (version / "model.py").write_text(CALLER_MODEL)
        (version.parent / "config.pbtxt").write_text(CALLER_CONFIG)
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.__enter__()
        cls.client = httpclient.InferenceServerClient(cls.server.url)
        cls.addClassCleanup(cls.client.close)

    def call(self, model: str) -> np.ndarray:
        inputs = []
        for name, value in (("A", self.a), ("B", self.b)):
            tensor = httpclient.InferInput(name, [1, 16], "FP32")
            tensor.set_data_from_numpy(value)
            inputs.append(tensor)
        tensor = httpclient.InferInput("MODEL", [1], "BYTES")
        tensor.set_data_from_numpy(np.array([model.encode()], np.object_))
        return self.client.infer("caller", [*inputs, tensor]).as_numpy("SUM")

    def setUp(self) -> None:
        self.a = np.arange(16, dtype=np.float32).reshape(1, 16)
        self.b = np.full((1, 16), 2, np.float32)

    def test_a_python_model_calls_an_onnx_model(self) -> None:
        np.testing.assert_array_equal(self.call("add_sub"), self.a + self.b)

    def test_a_python_model_calls_a_javascript_model(self) -> None:
        np.testing.assert_array_equal(self.call("add_sub_js"), self.a + self.b)

    def test_a_call_that_could_never_run_is_an_error_and_the_next_one_works(self) -> None:
        with self.assertRaises(InferenceServerException) as raised:
            self.call("caller")
        self.assertIn("caller", raised.exception.message())
        np.testing.assert_array_equal(self.call("add_sub"), self.a + self.b)

    def test_a_call_of_an_unknown_model_is_an_error(self) -> None:
        with self.assertRaisesRegex(InferenceServerException, "nope"):
            self.call("nope")


if __name__ == "__main__":
    unittest.main()
