"""tritonclient.grpc against a running server: plain, asyncio and streaming."""

from __future__ import annotations

import asyncio
import json
import queue
import time
import unittest
from collections.abc import Callable
from typing import Any

import grpc
import ml_dtypes
import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as aioclient
import tritonclient.utils.shared_memory as shm
from tritonclient.grpc import service_pb2, service_pb2_grpc
from tritonclient.utils import InferenceServerException

from .running_server import RunningServer, write_model
from .test_http import VALUES

STREAMS = 50
RESPONSES = 100

# Yields COUNT responses; without end where COUNT is negative, and broken in the middle where BREAK.
REPEAT_CONFIG = """backend: "javascript" model_transaction_policy { decoupled: true }
input [
  { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] },
  { name: "BREAK" data_type: TYPE_BOOL dims: [ 1 ] optional: true }
]
output [{ name: "INDEX" data_type: TYPE_INT32 dims: [ 1 ] }]
"""
REPEAT_MODEL = """export default class {
  async *execute([request]) {
    const [count] = request.getInput('COUNT').data;
    for (let index = 0; count < 0 || index < count; index++) {
      yield { outputs: [{ name: 'INDEX', shape: [1], data: Int32Array.of(index) }] };
    }
    if (request.getInput('BREAK')) throw Object.assign(new Error('enough'), { code: 'UNAVAILABLE' });
  }
}
"""


def start_server(case: type[unittest.TestCase], *flags: str) -> RunningServer:
    server = RunningServer("--allow-client-shm=true", *flags)
    write_model(server.repository, "repeat", REPEAT_CONFIG, REPEAT_MODEL)
    case.addClassCleanup(server.__exit__)
    return server.__enter__()


def tensor(name: str, value: np.ndarray, datatype: str) -> grpcclient.InferInput:
    made = grpcclient.InferInput(name, list(value.shape), datatype)
    made.set_data_from_numpy(value)
    return made


def add_sub_inputs(a: np.ndarray, b: np.ndarray) -> list[grpcclient.InferInput]:
    return [tensor("INPUT0", a, "FP32"), tensor("INPUT1", b, "FP32")]


def repeat_inputs(count: int, *, breaks: bool = False) -> list[grpcclient.InferInput]:
    inputs = [tensor("COUNT", np.array([count], np.int32), "INT32")]
    if breaks:
        inputs.append(tensor("BREAK", np.array([True]), "BOOL"))
    return inputs


class GrpcClientTest(unittest.TestCase):
    server: RunningServer
    client: grpcclient.InferenceServerClient

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = start_server(cls)
        cls.url = f"127.0.0.1:{cls.server.grpc_port}"
        cls.client = grpcclient.InferenceServerClient(cls.url)
        cls.addClassCleanup(cls.client.close)

    def assert_fails(self, status: str, text: str, call: Callable[[], Any]) -> None:
        with self.assertRaises(InferenceServerException) as caught:
            call()
        self.assertEqual(caught.exception.status(), f"StatusCode.{status}")
        self.assertIn(text, caught.exception.message())

    def test_health(self) -> None:
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready("add_sub", "1"))
        self.assertFalse(self.client.is_model_ready("nope"))

    def test_metadata_and_config(self) -> None:
        self.assertIn("binary_tensor_data", self.client.get_server_metadata().extensions)
        metadata = self.client.get_model_metadata("add_sub", as_json=True)
        self.assertEqual(metadata["platform"], "onnxruntime_onnx")
        self.assertIn(
            {"name": "INPUT0", "datatype": "FP32", "shape": ["-1", "16"]}, metadata["inputs"]
        )
        config = self.client.get_model_config("add_sub").config
        self.assertEqual(list(config.input[0].dims), [16])
        self.assertEqual(config.backend, "onnxruntime")
        decoupled = self.client.get_model_config("repeat").config.model_transaction_policy
        self.assertTrue(decoupled.decoupled)

    def test_statistics_count_requests(self) -> None:
        def success() -> int:
            stats = self.client.get_inference_statistics("add_sub").model_stats[0]
            return stats.inference_stats.success.count

        before = success()
        value = np.ones((1, 16), np.float32)
        for _ in range(3):
            self.client.infer("add_sub", add_sub_inputs(value, value))
        self.assertEqual(success(), before + 3)

    def test_index_load_and_unload(self) -> None:
        rows = {row.name: row.state for row in self.client.get_model_repository_index().models}
        self.assertEqual(rows["add_sub"], "READY")
        refused = "explicit model load / unload is not allowed"
        self.assert_fails("UNAVAILABLE", refused, lambda: self.client.load_model("add_sub"))
        self.assert_fails("UNAVAILABLE", refused, lambda: self.client.unload_model("add_sub"))

    def test_log_and_trace_settings(self) -> None:
        before = self.client.get_log_settings(as_json=True)["settings"]
        self.assertEqual(before["log_info"], {"bool_param": True})
        self.client.update_log_settings({"log_verbose_level": 1})
        after = self.client.update_log_settings({"log_verbose_level": 0}, as_json=True)["settings"]
        self.assertEqual(after["log_verbose_level"], {"uint32_param": 0})
        trace = self.client.update_trace_settings("add_sub", {"trace_rate": "7"}, as_json=True)
        self.assertEqual(trace["settings"]["trace_rate"]["value"], ["7"])
        self.client.update_trace_settings("add_sub", {"trace_rate": None})
        trace = self.client.get_trace_settings("add_sub", as_json=True)
        self.assertEqual(trace["settings"]["trace_rate"]["value"], ["1000"])

    def test_every_datatype(self) -> None:
        values = VALUES | {"BF16": np.array([1.5, -2.0, 0.0], ml_dtypes.bfloat16)}
        for datatype, value in values.items():
            with self.subTest(datatype=datatype):
                result = self.client.infer(
                    f"identity_{datatype.lower()}_js", [tensor("INPUT0", value, datatype)]
                ).as_numpy("OUTPUT0")
                if datatype == "BF16":
                    result, value = result.astype(np.float32), value.astype(np.float32)
                np.testing.assert_array_equal(result, value)

    def test_typed_contents(self) -> None:
        fields = {
            "BOOL": "bool",
            "UINT8": "uint",
            "UINT16": "uint",
            "UINT32": "uint",
            "UINT64": "uint64",
            "INT8": "int",
            "INT16": "int",
            "INT32": "int",
            "INT64": "int64",
            "FP32": "fp32",
            "FP64": "fp64",
            "BYTES": "bytes",
        }
        with grpc.insecure_channel(self.url) as channel:
            stub = service_pb2_grpc.GRPCInferenceServiceStub(channel)
            for datatype, field in fields.items():
                with self.subTest(datatype=datatype):
                    value = VALUES[datatype]
                    request = service_pb2.ModelInferRequest(
                        model_name=f"identity_{datatype.lower()}_js"
                    )
                    given = request.inputs.add(name="INPUT0", datatype=datatype, shape=[3])
                    getattr(given.contents, f"{field}_contents").extend(value.tolist())
                    raw = tensor("INPUT0", value, datatype)._get_content()
                    self.assertEqual(stub.ModelInfer(request).raw_output_contents[0], raw)

    def test_version_id_outputs_and_rows(self) -> None:
        a = np.arange(80, dtype=np.float32).reshape(5, 16)
        b = np.full((5, 16), 2, np.float32)
        result = self.client.infer(
            "add_sub",
            add_sub_inputs(a, b),
            model_version="1",
            request_id="id-7",
            outputs=[grpcclient.InferRequestedOutput("OUTPUT1")],
        )
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), a - b)
        self.assertIsNone(result.as_numpy("OUTPUT0"))
        response = result.get_response()
        self.assertEqual((response.id, response.model_version), ("id-7", "1"))

    def test_classification(self) -> None:
        value = np.array([0.25, 0.75, 0.5], np.float32)
        result = self.client.infer(
            "identity_fp32_js",
            [tensor("INPUT0", value, "FP32")],
            outputs=[grpcclient.InferRequestedOutput("OUTPUT0", class_count=2)],
        )
        self.assertEqual(list(result.as_numpy("OUTPUT0")), [b"0.750000:1", b"0.500000:2"])

    def test_large_tensors(self) -> None:
        value = np.arange(4_000_000, dtype=np.float32)
        result = self.client.infer("identity_fp32_js", [tensor("INPUT0", value, "FP32")])
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), value)

    def test_compressed_requests(self) -> None:
        value = np.ones(10_000, np.float32)
        for algorithm in ("gzip", "deflate"):
            with self.subTest(algorithm=algorithm):
                result = self.client.infer(
                    "identity_fp32_js",
                    [tensor("INPUT0", value, "FP32")],
                    compression_algorithm=algorithm,
                )
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), value)

    def test_errors(self) -> None:
        ones = np.ones((1, 16), np.float32)
        infer = self.client.infer
        for status, text, call in (
            ("NOT_FOUND", "unknown model: 'nope'", lambda: infer("nope", [])),
            ("INVALID_ARGUMENT", "expected 2 inputs but got 0", lambda: infer("add_sub", [])),
            (
                "INVALID_ARGUMENT",
                "unexpected shape for input 'INPUT0'",
                lambda: infer("add_sub", add_sub_inputs(ones[:, :5], ones)),
            ),
            (
                "INTERNAL",
                "boom from execute",
                lambda: infer("misbehaving", [tensor("MODE", np.array([1], np.int32), "INT32")]),
            ),
            (
                "NOT_FOUND",
                "not here",
                lambda: infer("misbehaving", [tensor("MODE", np.array([5], np.int32), "INT32")]),
            ),
            (
                "UNIMPLEMENTED",
                "decoupled transaction policy",
                lambda: infer("repeat", repeat_inputs(1)),
            ),
        ):
            with self.subTest(text=text):
                self.assert_fails(status, text, call)

    def test_client_timeout(self) -> None:
        slow = [tensor("MS", np.array([3000], np.int32), "INT32")]
        started = time.monotonic()
        self.assert_fails(
            "DEADLINE_EXCEEDED", "", lambda: self.client.infer("slow", slow, client_timeout=0.2)
        )
        self.assertLess(time.monotonic() - started, 1.5)

    def test_async_infer_with_callbacks(self) -> None:
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        value = np.ones((1, 16), np.float32)
        for _ in range(20):
            self.client.async_infer(
                "add_sub",
                add_sub_inputs(value, value),
                lambda result, error: answers.put((result, error)),
            )
        for _ in range(20):
            result, error = answers.get(timeout=20)
            self.assertIsNone(error)
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), value * 2)

    def test_system_shared_memory(self) -> None:
        value = np.arange(16, dtype=np.float32).reshape(1, 16)
        handle = shm.create_shared_memory_region("region", "/nereid_grpc_test", 4 * 64)
        try:
            shm.set_shared_memory_region(handle, [value, value])
            self.client.register_system_shared_memory("region", "/nereid_grpc_test", 4 * 64)
            status = self.client.get_system_shared_memory_status()
            self.assertEqual(status.regions["region"].byte_size, 256)
            inputs = [grpcclient.InferInput(f"INPUT{i}", [1, 16], "FP32") for i in range(2)]
            outputs = [grpcclient.InferRequestedOutput(f"OUTPUT{i}") for i in range(2)]
            for index in range(2):
                inputs[index].set_shared_memory("region", 64, 64 * index)
                outputs[index].set_shared_memory("region", 64, 128 + 64 * index)
            result = self.client.infer("add_sub", inputs, outputs=outputs)
            self.assertEqual(list(result.get_output("OUTPUT0").shape), [1, 16])
            total = shm.get_contents_as_numpy(handle, np.float32, [1, 16], offset=128)
            np.testing.assert_array_equal(total, value * 2)
            self.client.unregister_system_shared_memory("region")
            self.assertFalse(self.client.get_system_shared_memory_status().regions)
        finally:
            shm.destroy_shared_memory_region(handle)
        self.assertFalse(self.client.get_cuda_shared_memory_status().regions)

    def test_health_and_reflection_services(self) -> None:
        with grpc.insecure_channel(self.url) as channel:
            check = channel.unary_unary("/grpc.health.v1.Health/Check")
            self.assertEqual(check(b""), b"\x08\x01")
            self.assertEqual(check(b"\x0a\x07add_sub"), b"\x08\x01")
            with self.assertRaises(grpc.RpcError) as caught:
                check(b"\x0a\x04nope")
            self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
            for version in ("v1", "v1alpha"):
                path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
                (answer,) = channel.stream_stream(path)(iter([b"\x3a\x00"]))
                self.assertIn(b"inference.GRPCInferenceService", answer)
            with self.assertRaises(grpc.RpcError) as caught:
                channel.unary_unary("/inference.GRPCInferenceService/Nope")(b"")
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_stream_of_plain_models_keeps_the_order(self) -> None:
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        with grpcclient.InferenceServerClient(self.url) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            for index in range(50):
                value = np.full((1, 16), index, np.float32)
                client.async_stream_infer(
                    "add_sub", add_sub_inputs(value, value), request_id=str(index)
                )
            client.async_stream_infer("nope", [], request_id="missing")
            for index in range(50):
                result, error = answers.get(timeout=20)
                self.assertIsNone(error)
                self.assertEqual(result.get_response().id, str(index))
                self.assertTrue(
                    result.get_response().parameters["triton_final_response"].bool_param
                )
            _, error = answers.get(timeout=20)
            self.assertIn("unknown model: 'nope'", error.message())
            client.stop_stream()

    def test_stream_of_a_decoupled_model(self) -> None:
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        with grpcclient.InferenceServerClient(self.url) as client:
            client.start_stream(lambda result, error: answers.put((result, error)))
            client.async_stream_infer(
                "repeat", repeat_inputs(3), request_id="a", enable_empty_final_response=True
            )
            for index in range(3):
                result, error = answers.get(timeout=20)
                self.assertIsNone(error)
                self.assertEqual(result.as_numpy("INDEX")[0], index)
            result, error = answers.get(timeout=20)
            response = result.get_response()
            self.assertTrue(response.parameters["triton_final_response"].bool_param)
            self.assertFalse(response.outputs)
            # No response at all, then a failure in the middle, on the same stream.
            client.async_stream_infer("repeat", repeat_inputs(0), request_id="b")
            client.async_stream_infer("repeat", repeat_inputs(2, breaks=True), request_id="c")
            for index in range(2):
                result, error = answers.get(timeout=20)
                self.assertEqual(result.get_response().id, "c")
            result, error = answers.get(timeout=20)
            self.assertIn("enough", error.message())
            client.stop_stream()

    def test_cancelling_a_stream_stops_the_model(self) -> None:
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        with (
            grpcclient.InferenceServerClient(self.url) as client,
            grpcclient.InferenceServerClient(self.url) as other,
        ):
            client.start_stream(lambda result, error: answers.put((result, error)))
            client.async_stream_infer("repeat", repeat_inputs(-1))
            for _ in range(20):
                answers.get(timeout=20)
            client.stop_stream(cancel_requests=True)
            # The model has one instance: it answers this when the endless request has ended.
            other.start_stream(lambda result, error: answers.put((result, error)))
            other.async_stream_infer("repeat", repeat_inputs(1), request_id="next")
            while True:
                result, error = answers.get(timeout=20)
                if error is None and result.get_response().id == "next":
                    break
            other.stop_stream()

    def test_stream_that_ends_with_a_status(self) -> None:
        answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
        with grpcclient.InferenceServerClient(self.url) as client:
            client.start_stream(
                lambda result, error: answers.put((result, error)),
                headers={"triton_grpc_error": "true"},
            )
            client.async_stream_infer("nope", [])
            _, error = answers.get(timeout=20)
            self.assertEqual(error.status(), "StatusCode.NOT_FOUND")
            client.stop_stream()


class AsyncioGrpcClientTest(unittest.IsolatedAsyncioTestCase):
    server: RunningServer

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = start_server(cls)
        cls.url = f"127.0.0.1:{cls.server.grpc_port}"

    async def test_tour(self) -> None:
        async with aioclient.InferenceServerClient(self.url) as client:
            self.assertTrue(await client.is_server_live())
            self.assertTrue(await client.is_model_ready("add_sub"))
            metadata = await client.get_model_metadata("add_sub")
            self.assertEqual(metadata.name, "add_sub")
            statistics = await client.get_inference_statistics()
            self.assertGreater(len(statistics.model_stats), 3)
            value = np.ones((1, 16), np.float32)
            results = await asyncio.gather(
                *(client.infer("add_sub", add_sub_inputs(value, value)) for _ in range(50))
            )
            for result in results:
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), value * 2)

    async def test_many_streams_get_every_response_in_order(self) -> None:
        async def run(client: aioclient.InferenceServerClient) -> list[int]:
            async def requests() -> Any:
                yield {"model_name": "repeat", "inputs": repeat_inputs(RESPONSES)}

            got = []
            async for result, error in client.stream_infer(requests()):
                self.assertIsNone(error)
                got.append(int(result.as_numpy("INDEX")[0]))
            return got

        async with aioclient.InferenceServerClient(self.url) as client:
            for got in await asyncio.gather(*(run(client) for _ in range(STREAMS))):
                self.assertEqual(got, list(range(RESPONSES)))

    async def test_cancelled_request(self) -> None:
        async with aioclient.InferenceServerClient(self.url) as client:
            slow = [tensor("MS", np.array([2000], np.int32), "INT32")]
            task = asyncio.create_task(client.infer("slow", slow))
            await asyncio.sleep(0.2)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertTrue(await client.is_server_ready())


class ExplicitModeTest(unittest.TestCase):
    def test_load_and_unload(self) -> None:
        with RunningServer("--model-control-mode=explicit") as server:
            with grpcclient.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
                self.assertFalse(client.is_model_ready("add_sub_js"))
                client.load_model("add_sub_js")
                self.assertTrue(client.is_model_ready("add_sub_js"))
                written = client.get_model_config("add_sub_js", as_json=True)["config"]
                changed = written | {"max_batch_size": 3, "dynamic_batching": {}}
                client.load_model("add_sub_js", config=json.dumps(changed))
                self.assertEqual(client.get_model_config("add_sub_js").config.max_batch_size, 3)
                client.unload_model("add_sub_js")
                deadline = time.monotonic() + 20
                while client.is_model_ready("add_sub_js") and time.monotonic() < deadline:
                    time.sleep(0.02)
                self.assertFalse(client.is_model_ready("add_sub_js"))
                with self.assertRaises(InferenceServerException) as caught:
                    client.load_model("nope")
                self.assertEqual(caught.exception.status(), "StatusCode.INTERNAL")


class RestrictedProtocolTest(unittest.TestCase):
    def test_header_opens_a_group(self) -> None:
        flags = ("--grpc-restricted-protocol=inference,health:infer-key=infer-value",)
        with RunningServer(*flags) as server:
            with grpcclient.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
                value = np.ones((1, 16), np.float32)
                with self.assertRaises(InferenceServerException) as caught:
                    client.infer("add_sub", add_sub_inputs(value, value))
                self.assertIn("This protocol is restricted", caught.exception.message())
                headers = {"triton-grpc-protocol-infer-key": "infer-value"}
                client.infer("add_sub", add_sub_inputs(value, value), headers=headers)
                self.assertTrue(client.is_server_live(headers=headers))
                self.assertTrue(client.get_server_metadata().name)


class ResponseCompressionTest(unittest.TestCase):
    def test_compressed_responses(self) -> None:
        with RunningServer("--grpc-infer-response-compression-level=medium") as server:
            with grpcclient.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
                value = np.ones(100_000, np.float32)
                result = client.infer("identity_fp32_js", [tensor("INPUT0", value, "FP32")])
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), value)


if __name__ == "__main__":
    unittest.main()
