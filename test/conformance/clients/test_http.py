"""tritonclient.http against a running server: every method, datatype and both data forms."""

from __future__ import annotations

import json
import threading
import time
import unittest
import urllib.request

import ml_dtypes
import numpy as np
import tritonclient.http as httpclient
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.utils import InferenceServerException

from .running_server import RunningServer

LOAD_SECONDS = 10.0
LOAD_CLIENTS = 64

VALUES = {
    "BOOL": np.array([True, False, True]),
    "UINT8": np.array([0, 1, 255], np.uint8),
    "UINT16": np.array([0, 1, 65535], np.uint16),
    "UINT32": np.array([0, 1, 4294967295], np.uint32),
    "UINT64": np.array([0, 2**53 + 1, 2**64 - 1], np.uint64),
    "INT8": np.array([-128, 0, 127], np.int8),
    "INT16": np.array([-32768, 0, 32767], np.int16),
    "INT32": np.array([-(2**31), 0, 2**31 - 1], np.int32),
    "INT64": np.array([-(2**63), 2**53 + 1, 2**63 - 1], np.int64),
    "FP16": np.array([-1.5, 0.1, 65504], np.float16),
    "FP32": np.array([-1.5, 0.1, 3.4e38], np.float32),
    "FP64": np.array([-1.5, 0.1, 1e300], np.float64),
    "BYTES": np.array([b"a\x00b", "h\u00e9 \u4e2d".encode(), b""], np.object_),
}
NO_JSON = {"FP16", "BF16"}


def add_sub_inputs(a: np.ndarray, b: np.ndarray, *, is_binary: bool) -> list[httpclient.InferInput]:
    inputs = []
    for name, value in (("INPUT0", a), ("INPUT1", b)):
        tensor = httpclient.InferInput(name, list(value.shape), "FP32")
        tensor.set_data_from_numpy(value, binary_data=is_binary)
        inputs.append(tensor)
    return inputs


class HttpClientTest(unittest.TestCase):
    server: RunningServer
    client: httpclient.InferenceServerClient

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = RunningServer("--execution-timeout-ms=1500")
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.__enter__()
        cls.client = httpclient.InferenceServerClient(cls.server.url)
        cls.addClassCleanup(cls.client.close)

    def test_health(self) -> None:
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("add_sub"))
        self.assertTrue(self.client.is_model_ready("add_sub", "1"))
        self.assertFalse(self.client.is_model_ready("nope"))

    def test_server_metadata(self) -> None:
        metadata = self.client.get_server_metadata()
        self.assertIn("binary_tensor_data", metadata["extensions"])

    def test_model_metadata(self) -> None:
        metadata = self.client.get_model_metadata("add_sub")
        self.assertEqual(metadata["versions"], ["1"])
        self.assertEqual(metadata["platform"], "onnxruntime_onnx")
        self.assertIn({"name": "INPUT0", "datatype": "FP32", "shape": [-1, 16]}, metadata["inputs"])

    def test_model_config(self) -> None:
        config = self.client.get_model_config("add_sub")
        self.assertEqual(config["input"][0]["dims"], [16])
        self.assertEqual(config["backend"], "onnxruntime")
        self.assertGreater(config["max_batch_size"], 1)

    def test_statistics_count_requests(self) -> None:
        def success() -> int:
            stats = self.client.get_inference_statistics("add_sub")["model_stats"][0]
            return stats["inference_stats"]["success"]["count"]

        before = success()
        value = np.ones((1, 16), np.float32)
        for _ in range(3):
            self.client.infer("add_sub", add_sub_inputs(value, value, is_binary=True))
        self.assertEqual(success(), before + 3)

    def test_repository_index(self) -> None:
        rows = {row["name"]: row for row in self.client.get_model_repository_index()}
        self.assertEqual(rows["add_sub"], {"name": "add_sub", "version": "1", "state": "READY"})

    def test_every_datatype_binary_and_json(self) -> None:
        for datatype, value in VALUES.items():
            for is_binary in (True, False):
                if not is_binary and datatype in NO_JSON:
                    continue
                with self.subTest(datatype=datatype, is_binary=is_binary):
                    tensor = httpclient.InferInput("INPUT0", [3], datatype)
                    sent = value
                    if datatype == "BYTES" and not is_binary:
                        sent = np.array(["ab", "h\u00e9 \u4e2d", ""], np.object_)
                    tensor.set_data_from_numpy(sent, binary_data=is_binary)
                    output = httpclient.InferRequestedOutput("OUTPUT0", binary_data=is_binary)
                    result = self.client.infer(
                        f"identity_{datatype.lower()}_js", [tensor], outputs=[output]
                    ).as_numpy("OUTPUT0")
                    if datatype == "BYTES" and not is_binary:
                        sent = np.array([s.encode() for s in sent], np.object_)
                        result = np.array(
                            [s if isinstance(s, bytes) else s.encode() for s in result], np.object_
                        )
                    np.testing.assert_array_equal(result, sent)

    def test_bf16_binary(self) -> None:
        tensor = httpclient.InferInput("INPUT0", [2], "BF16")
        sent = np.array([1.5, -2.0], ml_dtypes.bfloat16)
        tensor.set_data_from_numpy(sent, binary_data=True)
        output = httpclient.InferRequestedOutput("OUTPUT0", binary_data=True)
        result = self.client.infer("identity_bf16_js", [tensor], outputs=[output])
        received = result.as_numpy("OUTPUT0").astype(np.float32)
        np.testing.assert_array_equal(received, sent.astype(np.float32))

    def test_several_rows_and_version_and_id(self) -> None:
        a = np.arange(80, dtype=np.float32).reshape(5, 16)
        b = np.full((5, 16), 2, np.float32)
        for is_binary in (True, False):
            result = self.client.infer(
                "add_sub",
                add_sub_inputs(a, b, is_binary=is_binary),
                model_version="1",
                request_id="id-7",
                outputs=[httpclient.InferRequestedOutput("OUTPUT1", binary_data=is_binary)],
            )
            np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)
            self.assertIsNone(result.as_numpy("OUTPUT0"))
            self.assertEqual(result.get_response()["id"], "id-7")
            self.assertEqual(result.get_response()["model_version"], "1")

    def test_wrong_inputs_raise_with_a_message_that_names_the_fault(self) -> None:
        good = np.zeros((1, 16), np.float32)

        def infer(*tensors: tuple[str, list[int], str, np.ndarray], model: str = "add_sub") -> None:
            inputs = []
            for name, shape, datatype, value in tensors:
                tensor = httpclient.InferInput(name, list(value.shape), datatype)
                tensor.set_data_from_numpy(value)
                tensor.set_shape(shape)
                inputs.append(tensor)
            self.client.infer(model, inputs)

        a = ("INPUT0", [1, 16], "FP32", good)
        b = ("INPUT1", [1, 16], "FP32", good)
        cases = [
            ((a,), "expected 2 inputs but got 1 inputs for model 'add_sub'"),
            ((a, ("OTHER", [1, 16], "FP32", good)), "unexpected inference input 'OTHER'"),
            (
                (a, ("INPUT1", [1, 16], "INT32", np.zeros((1, 16), np.int32))),
                "inference input 'INPUT1' data-type is 'INT32', but model 'add_sub' expects 'FP32'",
            ),
            (
                (a, ("INPUT1", [1, 8], "FP32", np.zeros((1, 8), np.float32))),
                "unexpected shape for input 'INPUT1' for model 'add_sub'",
            ),
            (
                (a, ("INPUT1", [2, 16], "FP32", np.zeros((2, 16), np.float32))),
                "batch size does not match other inputs for 'add_sub'",
            ),
        ]
        for tensors, message in cases:
            with self.subTest(message=message):
                with self.assertRaises(InferenceServerException) as raised:
                    infer(*tensors)
                self.assertIn(message, raised.exception.message())
        with self.assertRaisesRegex(InferenceServerException, "unknown model: 'nope'"):
            infer(a, b, model="nope")

    def test_a_misbehaving_model_fails_only_its_own_request(self) -> None:
        def infer(mode: int) -> int:
            tensor = httpclient.InferInput("MODE", [1], "INT32")
            tensor.set_data_from_numpy(np.array([mode], np.int32))
            return int(self.client.infer("misbehaving", [tensor]).as_numpy("OUT")[0])

        messages = {
            1: "boom from execute",
            2: "OUT",
            3: "misbehaving",
            4: "misbehaving",
            5: "not here",
        }
        for mode, message in messages.items():
            with self.subTest(mode=mode):
                with self.assertRaises(InferenceServerException) as raised:
                    infer(mode)
                self.assertIn(message, raised.exception.message())
                self.assertEqual(self.eventually(lambda: infer(7)), 7)

    def eventually(self, call):  # type: ignore[no-untyped-def]
        """An instance that died is replaced within a moment; until then requests wait or fail."""
        deadline = time.monotonic() + 10
        while True:
            try:
                return call()
            except InferenceServerException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)

    def test_metrics_parse_and_count(self) -> None:
        value = np.ones((1, 16), np.float32)
        self.client.infer("add_sub", add_sub_inputs(value, value, is_binary=True))
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.metrics_port}/metrics") as page:
            families = {f.name: f for f in text_string_to_metric_families(page.read().decode())}
        success = families["nv_inference_request_success"].samples
        add_sub = [s for s in success if s.labels == {"model": "add_sub", "version": "1"}]
        self.assertGreaterEqual(add_sub[0].value, 1)

    def test_64_concurrent_clients_get_their_own_answers(self) -> None:
        deadline = time.monotonic() + LOAD_SECONDS
        errors: list[str] = []
        counts = [0] * LOAD_CLIENTS

        def run(index: int) -> None:
            client = httpclient.InferenceServerClient(self.server.url)
            try:
                while time.monotonic() < deadline:
                    rows = 1 + counts[index] % 3
                    a = np.full((rows, 16), index, np.float32) + np.arange(rows)[:, None]
                    b = np.full((rows, 16), counts[index] % 1000, np.float32)
                    a = a.astype(np.float32)
                    is_binary = counts[index] % 4 != 0
                    result = client.infer("add_sub", add_sub_inputs(a, b, is_binary=is_binary))
                    if not (
                        np.array_equal(result.as_numpy("OUTPUT0"), a + b)
                        and np.array_equal(result.as_numpy("OUTPUT1"), a - b)
                    ):
                        errors.append(f"client {index}: wrong answer")
                    counts[index] += 1
            except Exception as error:  # noqa: BLE001 - every kind of failure is counted
                errors.append(f"client {index}: {error!r}")
            finally:
                client.close()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(LOAD_CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(f"{sum(counts)} requests", json.dumps({"errors": len(errors)}))
        self.assertEqual(errors, [])
        self.assertGreater(min(counts), 0)


if __name__ == "__main__":
    unittest.main()
