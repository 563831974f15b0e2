"""grpcurl, which knows our messages only by reflection, against a running server."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import unittest
from typing import Any

from clients.running_server import ROOT, RunningServer

PROGRAM = ROOT / ".tools" / "bin" / "grpcurl"
TLS = ROOT / "test" / "fixtures" / "tls"
SERVICE = "inference.GRPCInferenceService"
TIMEOUT_S = 30


def add_sub_request() -> dict[str, Any]:
    rows = {"INPUT0": [float(index) for index in range(16)], "INPUT1": [2.0] * 16}
    return {
        "model_name": "add_sub",
        "id": "id-7",
        "inputs": [
            {"name": name, "datatype": "FP32", "shape": [1, 16], "contents": {"fp32_contents": row}}
            for name, row in rows.items()
        ],
    }


class GrpcurlTest(unittest.TestCase):
    flags: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ("-plaintext",)
    server: RunningServer

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = RunningServer(*cls.flags)
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.__enter__()

    def run_program(self, *arguments: str, options: tuple[str, ...] = ()) -> str:
        """Runs the program to its end and returns what it printed; fails where it fails."""
        result = self.attempt(*arguments, options=options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def attempt(
        self, *arguments: str, options: tuple[str, ...] = ()
    ) -> subprocess.CompletedProcess[str]:
        target = f"localhost:{self.server.grpc_port}"
        return subprocess.run(
            [str(PROGRAM), *self.arguments, *options, target, *arguments],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )

    def call(self, method: str, request: object = None) -> Any:
        options = ("-d", json.dumps({} if request is None else request))
        return json.loads(self.run_program(method, options=options))


class PlainTest(GrpcurlTest):
    def test_lists_services(self) -> None:
        self.assertEqual(
            self.run_program("list").split(),
            [
                "grpc.health.v1.Health",
                "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection",
                SERVICE,
            ],
        )
        methods = self.run_program("list", SERVICE).split()
        self.assertEqual(len(methods), 20)
        self.assertIn(f"{SERVICE}.ModelStreamInfer", methods)

    def test_describes_services_and_messages(self) -> None:
        self.assertIn(
            "rpc ModelStreamInfer ( stream .inference.ModelInferRequest ) "
            "returns ( stream .inference.ModelStreamInferResponse );",
            self.run_program("describe", SERVICE),
        )
        self.assertIn(
            "repeated bytes raw_input_contents = 7;",
            self.run_program("describe", "inference.ModelInferRequest"),
        )

    def test_calls(self) -> None:
        self.assertEqual(self.call(f"{SERVICE}/ServerLive"), {"live": True})
        self.assertEqual(self.call(f"{SERVICE}/ModelReady", {"name": "add_sub"}), {"ready": True})
        config = self.call(f"{SERVICE}/ModelConfig", {"name": "add_sub"})["config"]
        self.assertEqual(config["backend"], "onnxruntime")
        health = {"service": "add_sub"}
        self.assertEqual(self.call("grpc.health.v1.Health/Check", health), {"status": "SERVING"})

    def test_infers(self) -> None:
        answer = self.call(f"{SERVICE}/ModelInfer", add_sub_request())
        self.assertEqual((answer["modelName"], answer["id"]), ("add_sub", "id-7"))
        sums = base64.b64decode(answer["rawOutputContents"][0])
        self.assertEqual(struct.unpack("<16f", sums), tuple(index + 2.0 for index in range(16)))

    def test_infers_on_a_stream(self) -> None:
        requests = "".join(
            json.dumps({**add_sub_request(), "id": str(index)}) for index in range(3)
        )
        printed = self.run_program(f"{SERVICE}/ModelStreamInfer", options=("-d", requests))
        decoder = json.JSONDecoder()
        ids = []
        while printed:
            answer, end = decoder.raw_decode(printed)
            ids.append(answer["inferResponse"]["id"])
            printed = printed[end:].lstrip()
        self.assertEqual(ids, ["0", "1", "2"])

    def test_fails_with_a_status(self) -> None:
        result = self.attempt(f"{SERVICE}/ModelMetadata", options=("-d", '{"name": "nope"}'))
        self.assertNotEqual(result.returncode, 0)
        self.assertIn("Code: NotFound", result.stderr)
        self.assertIn("Request for unknown model: 'nope' is not found", result.stderr)


class TlsTest(GrpcurlTest):
    flags = (
        "--grpc-use-ssl=true",
        f"--grpc-server-cert={TLS / 'server.pem'}",
        f"--grpc-server-key={TLS / 'server-key.pem'}",
    )
    arguments = ("-cacert", str(TLS / "ca.pem"))

    def test_calls(self) -> None:
        self.assertEqual(self.call(f"{SERVICE}/ServerReady"), {"ready": True})


if __name__ == "__main__":
    unittest.main()
