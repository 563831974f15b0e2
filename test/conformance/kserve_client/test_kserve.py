"""The KServe client's calls of protocol version 2, over gRPC and REST, against a running server."""

from __future__ import annotations

import logging
import unittest

import grpc
import httpx
import numpy as np
from clients.running_server import ROOT, RunningServer
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest
from kserve.inference_client import RESTConfig
from kserve.protocol.grpc import grpc_predict_v2_pb2 as messages
from kserve.protocol.grpc.grpc_predict_v2_pb2_grpc import GRPCInferenceServiceStub
from kserve.protocol.infer_type import RequestedOutput

TLS = ROOT / "test" / "fixtures" / "tls"
A = np.arange(32, dtype=np.float32).reshape(2, 16)
B = np.full((2, 16), 2, np.float32)

VALUES = {
    "BOOL": np.array([True, False]),
    "UINT8": np.array([0, 255], np.uint8),
    "UINT16": np.array([0, 65535], np.uint16),
    "UINT32": np.array([0, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 2**64 - 1], np.uint64),
    "INT8": np.array([-128, 127], np.int8),
    "INT16": np.array([-(2**15), 2**15 - 1], np.int16),
    "INT32": np.array([-(2**31), 2**31 - 1], np.int32),
    "INT64": np.array([-(2**63), 2**63 - 1], np.int64),
    "FP16": np.array([-1.5, 0.1], np.float16),
    "FP32": np.array([-1.5, 0.1], np.float32),
    "FP64": np.array([-1.5, 0.1], np.float64),
    "BYTES": np.array([b"a\x00b", "h\u00e9 \u4e2d".encode()], np.object_),
}
# Those that have no typed contents and no JSON form.
RAW_ONLY = {"FP16"}


def tensor(name: str, value: np.ndarray, datatype: str, *, is_raw: bool) -> InferInput:
    shape = list(value.shape)
    if not is_raw:
        return InferInput(name, shape, datatype, data=value.flatten().tolist())
    made = InferInput(name, shape, datatype)
    made.set_data_from_numpy(value)
    return made


def add_sub(*, is_raw: bool, **more: object) -> InferRequest:
    values = {"INPUT0": A, "INPUT1": B}
    inputs = [tensor(name, value, "FP32", is_raw=is_raw) for name, value in values.items()]
    return InferRequest("add_sub", inputs, **more)


class KServeTest(unittest.IsolatedAsyncioTestCase):
    flags: tuple[str, ...] = ()
    server: RunningServer

    @classmethod
    def setUpClass(cls) -> None:
        # The client logs each failure before it raises it.
        logging.disable(logging.ERROR)
        cls.addClassCleanup(logging.disable, logging.NOTSET)
        cls.server = RunningServer(*cls.flags)
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.__enter__()
        cls.url = f"127.0.0.1:{cls.server.grpc_port}"
        cls.base_url = f"http://{cls.server.url}"


class GrpcTest(KServeTest):
    async def asyncSetUp(self) -> None:
        self.client = InferenceGRPCClient(self.url)
        self.addAsyncCleanup(self.client.close)

    async def test_health(self) -> None:
        self.assertIs(await self.client.is_server_live(), True)
        self.assertIs(await self.client.is_server_ready(), True)
        self.assertIs(await self.client.is_model_ready("add_sub"), True)
        self.assertIs(await self.client.is_model_ready("nope"), False)

    async def test_metadata(self) -> None:
        async with grpc.aio.insecure_channel(self.url) as channel:
            stub = GRPCInferenceServiceStub(channel)
            server = await stub.ServerMetadata(messages.ServerMetadataRequest())
            self.assertIn("binary_tensor_data", server.extensions)
            model = await stub.ModelMetadata(messages.ModelMetadataRequest(name="add_sub"))
            self.assertEqual((model.platform, list(model.versions)), ("onnxruntime_onnx", ["1"]))
            self.assertEqual([tuple(i.shape) for i in model.inputs], [(-1, 16), (-1, 16)])

    async def test_infer(self) -> None:
        for is_raw in (True, False):
            with self.subTest(is_raw=is_raw):
                request = add_sub(
                    is_raw=is_raw, request_id="id-7", model_version="1", parameters={"priority": 0}
                )
                response = await self.client.infer(request)
                self.assertEqual((response.id, response.model_name), ("id-7", "add_sub"))
                self.assertEqual(response.model_version, "1")
                sums = response.get_output_by_name("OUTPUT0").as_numpy()
                np.testing.assert_array_equal(sums, A + B)
                differences = response.get_output_by_name("OUTPUT1").as_numpy()
                np.testing.assert_array_equal(differences, A - B)

    async def test_requested_output(self) -> None:
        request = add_sub(is_raw=True, request_outputs=[RequestedOutput("OUTPUT1")])
        response = await self.client.infer(request)
        self.assertEqual([output.name for output in response.outputs], ["OUTPUT1"])

    async def test_every_datatype(self) -> None:
        for datatype, value in VALUES.items():
            for is_raw in (True, False):
                if not is_raw and datatype in RAW_ONLY:
                    continue
                with self.subTest(datatype=datatype, is_raw=is_raw):
                    given = tensor("INPUT0", value, datatype, is_raw=is_raw)
                    request = InferRequest(f"identity_{datatype.lower()}_js", [given])
                    (output,) = (await self.client.infer(request)).outputs
                    self.assertEqual(output.datatype, datatype)
                    np.testing.assert_array_equal(output.as_numpy(), value)

    async def test_errors(self) -> None:
        unknown = InferRequest("nope", add_sub(is_raw=True).inputs)
        lacking = InferRequest("add_sub", add_sub(is_raw=True).inputs[:1])
        for request, code, text in (
            (unknown, grpc.StatusCode.NOT_FOUND, "unknown model: 'nope'"),
            (lacking, grpc.StatusCode.INVALID_ARGUMENT, "expected 2 inputs but got 1"),
        ):
            with self.subTest(text=text), self.assertRaises(grpc.RpcError) as caught:
                await self.client.infer(request)
            self.assertEqual(caught.exception.code(), code)
            self.assertIn(text, caught.exception.details())

    async def test_timeout(self) -> None:
        slow = InferRequest("slow", [InferInput("MS", [1], "INT32", data=[2000])])
        with self.assertRaises(grpc.RpcError) as caught:
            await self.client.infer(slow, timeout=0.2)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

    async def test_load_is_the_call_of_the_reference_server(self) -> None:
        # KServe's own message has the model's name where that of the reference server has the
        # repository's, which must be empty.
        async with grpc.aio.insecure_channel(self.url) as channel:
            stub = GRPCInferenceServiceStub(channel)
            with self.assertRaises(grpc.RpcError) as caught:
                await stub.RepositoryModelLoad(
                    messages.RepositoryModelLoadRequest(model_name="add_sub")
                )
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)


class TlsTest(KServeTest):
    flags = (
        "--grpc-use-ssl-mutual=true",
        f"--grpc-server-cert={TLS / 'server.pem'}",
        f"--grpc-server-key={TLS / 'server-key.pem'}",
        f"--grpc-root-cert={TLS / 'ca.pem'}",
    )

    async def test_certificates_of_both_sides(self) -> None:
        client = InferenceGRPCClient(
            f"localhost:{self.server.grpc_port}",
            use_ssl=True,
            root_certificates=str(TLS / "ca.pem"),
            private_key=str(TLS / "client-key.pem"),
            certificate_chain=str(TLS / "client.pem"),
        )
        self.addAsyncCleanup(client.close)
        self.assertIs(await client.is_server_ready(), True)
        response = await client.infer(add_sub(is_raw=True))
        np.testing.assert_array_equal(response.outputs[0].as_numpy(), A + B)


class RestTest(KServeTest):
    """All but server health: the client wants JSON there, the reference server answers nothing."""

    async def asyncSetUp(self) -> None:
        self.client = InferenceRESTClient(RESTConfig(protocol="v2", retries=0))
        self.addAsyncCleanup(self.client.close)

    async def test_model_readiness(self) -> None:
        self.assertIs(await self.client.is_model_ready(self.base_url, "add_sub"), True)
        self.assertIs(await self.client.is_model_ready(self.base_url, "nope"), False)

    async def test_infer(self) -> None:
        for is_raw in (True, False):
            for wants_raw in (True, False):
                with self.subTest(is_raw=is_raw, wants_raw=wants_raw):
                    request = add_sub(
                        is_raw=is_raw,
                        request_id="id-7",
                        parameters={"binary_data_output": wants_raw},
                    )
                    response = await self.client.infer(self.base_url, request, "add_sub")
                    self.assertEqual(response.id, "id-7")
                    sums = response.get_output_by_name("OUTPUT0").as_numpy()
                    np.testing.assert_array_equal(sums, A + B)

    async def test_every_datatype(self) -> None:
        for datatype, value in VALUES.items():
            with self.subTest(datatype=datatype):
                given = tensor("INPUT0", value, datatype, is_raw=True)
                model = f"identity_{datatype.lower()}_js"
                response = await self.client.infer(
                    self.base_url,
                    InferRequest(model, [given], parameters={"binary_data_output": True}),
                    model,
                )
                if datatype == "BYTES":
                    # The client makes text of them.
                    value = np.array([element.decode() for element in value], np.object_)
                np.testing.assert_array_equal(response.outputs[0].as_numpy(), value)

    async def test_errors(self) -> None:
        lacking = InferRequest("add_sub", add_sub(is_raw=True).inputs[:1])
        for model, request, status, text in (
            ("nope", add_sub(is_raw=True), 404, "404"),
            ("add_sub", lacking, 400, "expected 2 inputs but got 1"),
        ):
            with self.subTest(text=text), self.assertRaises(httpx.HTTPStatusError) as caught:
                await self.client.infer(self.base_url, request, model)
            self.assertEqual(caught.exception.response.status_code, status)
            self.assertIn(text, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
