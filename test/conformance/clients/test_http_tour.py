"""A tour of every method of tritonclient.http, sync and asyncio, with and without compression."""

from __future__ import annotations

import asyncio
import base64
import json
import unittest
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import numpy as np
import tritonclient.http as httpclient
import tritonclient.http.aio as aioclient
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from .running_server import ROOT, RunningServer, write_model

ALGORITHMS = (None, "gzip", "deflate")
COMPRESSIONS = [(request, response) for request in ALGORITHMS for response in ALGORITHMS]

# Answers what it was asked, as JSON.
ECHO_CONFIG = """
backend: "javascript"
input [{ name: "TEXT" data_type: TYPE_STRING dims: [ 1 ] }]
output [{ name: "SEEN" data_type: TYPE_STRING dims: [ 1 ] }]
"""
ECHO_MODEL = """export default class {
  execute(requests) {
    return requests.map((request) => {
      const { id, parameters, priority, timeoutUs, isSequenceStart, isSequenceEnd } = request;
      const correlationId = String(request.correlationId);
      const text = request.getInput('TEXT').strings();
      const seen = { id, parameters, priority, timeoutUs, correlationId, isSequenceStart,
        isSequenceEnd, text };
      return { outputs: [{ name: 'SEEN', datatype: 'BYTES', shape: [1],
        data: [JSON.stringify(seen)] }] };
    });
  }
}
"""

# Gives the words of its text, one a response.
WORDS_CONFIG = """
backend: "javascript"
input [{ name: "text_input" data_type: TYPE_STRING dims: [ 1 ] }]
output [{ name: "text_output" data_type: TYPE_STRING dims: [ 1 ] }]
model_transaction_policy { decoupled: true }
"""
WORDS_MODEL = """export default class {
  async *execute([request]) {
    const [text] = request.getInput('text_input').strings();
    for (const word of text.split(' ')) {
      yield { outputs: [{ name: 'text_output', datatype: 'BYTES', shape: [1], data: [word] }] };
    }
  }
}
"""

# Adds up the values of a sequence.
SUM_CONFIG = """
backend: "javascript"
max_batch_size: 4
sequence_batching { max_sequence_idle_microseconds: 5000000 }
input [{ name: "VALUE" data_type: TYPE_INT32 dims: [ 1 ] }]
output [{ name: "SUM" data_type: TYPE_INT32 dims: [ 1 ] }]
"""
SUM_MODEL = """export default class {
  sums = new Map();
  execute(requests) {
    return requests.map((request) => {
      const before = request.isSequenceStart ? 0 : this.sums.get(request.correlationId);
      const sum = before + request.getInput('VALUE').data[0];
      this.sums.set(request.correlationId, sum);
      return { outputs: [{ name: 'SUM', datatype: 'INT32', shape: [1, 1], data: [sum] }] };
    });
  }
}
"""


def write_models(server: RunningServer) -> None:
    write_model(server.repository, "echo_request", ECHO_CONFIG, ECHO_MODEL)
    write_model(server.repository, "words", WORDS_CONFIG, WORDS_MODEL)
    write_model(server.repository, "sequence_sum", SUM_CONFIG, SUM_MODEL)


def add_sub_inputs(module: Any, first: np.ndarray, second: np.ndarray, is_binary: bool) -> list:
    inputs = []
    for name, value in (("INPUT0", first), ("INPUT1", second)):
        tensor = module.InferInput(name, list(value.shape), "FP32")
        tensor.set_data_from_numpy(value, binary_data=is_binary)
        inputs.append(tensor)
    return inputs


def text_input(module: Any, text: str) -> list:
    tensor = module.InferInput("TEXT", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([text.encode()], np.object_))
    return [tensor]


def value_input(value: int) -> list:
    tensor = httpclient.InferInput("VALUE", [1, 1], "INT32")
    tensor.set_data_from_numpy(np.array([[value]], np.int32))
    return [tensor]


def sample_digits() -> Iterator[tuple[str, np.ndarray]]:
    """The class and pixels of each sample that is shipped."""
    for path in sorted((ROOT / "examples" / "digits").glob("digit-*.json")):
        pixels = json.loads(path.read_text())["inputs"][0]["data"]
        yield path.stem[-1], np.array(pixels, np.float32).reshape(1, 8, 8)


class TourTest(unittest.TestCase):
    server: RunningServer
    client: httpclient.InferenceServerClient

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = RunningServer("--allow-client-shm=true", *cls.flags())
        write_models(cls.server)
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.__enter__()
        cls.client = httpclient.InferenceServerClient(cls.server.url, concurrency=4)
        cls.addClassCleanup(cls.client.close)

    @classmethod
    def flags(cls) -> list[str]:
        return []

    def post(self, path: str, body: bytes, headers: dict[str, str] | None = None) -> Any:
        request = urllib.request.Request(
            f"http://{self.server.url}{path}", data=body, headers=headers or {}, method="POST"
        )
        return urllib.request.urlopen(request, timeout=20)


class SyncTourTest(TourTest):
    def test_infer_with_every_pair_of_compressions(self) -> None:
        # Small ones are compressed at once, large ones off the event loop.
        for rows in (1, 64):
            first = np.arange(rows * 16, dtype=np.float32).reshape(rows, 16)
            second = np.full((rows, 16), 3, np.float32)
            for is_binary in (True, False):
                inputs = add_sub_inputs(httpclient, first, second, is_binary)
                outputs = [
                    httpclient.InferRequestedOutput("OUTPUT0", binary_data=is_binary),
                    httpclient.InferRequestedOutput("OUTPUT1", binary_data=not is_binary),
                ]
                for request, response in COMPRESSIONS:
                    with self.subTest(rows=rows, binary=is_binary, asked=request, given=response):
                        result = self.client.infer(
                            "add_sub",
                            inputs,
                            outputs=outputs,
                            request_compression_algorithm=request,
                            response_compression_algorithm=response,
                        )
                        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first + second)
                        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), first - second)

    def test_async_infer_answers_each_request_with_its_own_outputs(self) -> None:
        requests = []
        for number in range(20):
            first = np.full((1, 16), number, np.float32)
            requested, given = COMPRESSIONS[number % len(COMPRESSIONS)]
            request = self.client.async_infer(
                "add_sub",
                add_sub_inputs(httpclient, first, first, is_binary=number % 2 == 0),
                request_id=f"n{number}",
                request_compression_algorithm=requested,
                response_compression_algorithm=given,
            )
            self.assertIsInstance(request, httpclient.InferAsyncRequest)
            requests.append(request)
        for number, request in enumerate(requests):
            result = request.get_result(block=True, timeout=20)
            self.assertEqual(result.get_response()["id"], f"n{number}")
            np.testing.assert_array_equal(result.as_numpy("OUTPUT0")[0], [2 * number] * 16)

    def test_async_infer_raises_what_went_wrong(self) -> None:
        first = np.zeros((1, 16), np.float32)
        request = self.client.async_infer("nope", add_sub_inputs(httpclient, first, first, True))
        with self.assertRaisesRegex(InferenceServerException, "unknown model: 'nope'"):
            request.get_result()

    def test_id_priority_timeout_sequence_and_parameters_reach_the_model(self) -> None:
        result = self.client.infer(
            "echo_request",
            text_input(httpclient, "h\u00e9"),
            request_id="id 1",
            sequence_id=2**63 + 1,
            sequence_start=True,
            sequence_end=False,
            priority=3,
            timeout=9_000_000,
            parameters={"text": "x", "whole": 7, "flag": True},
        )
        self.assertEqual(result.get_response()["id"], "id 1")
        self.assertEqual(
            json.loads(result.as_numpy("SEEN")[0]),
            {
                "id": "id 1",
                "parameters": {"text": "x", "whole": 7, "flag": True},
                "priority": 3,
                "timeoutUs": 9_000_000,
                "correlationId": str(2**63 + 1),
                "isSequenceStart": True,
                "isSequenceEnd": False,
                "text": ["h\u00e9"],
            },
        )
        with self.assertRaisesRegex(InferenceServerException, "is a reserved parameter"):
            self.client.infer("echo_request", text_input(httpclient, ""), parameters={"priority": 1})

    def test_sequences_of_different_ids_keep_apart(self) -> None:
        sums: dict[int | str, list[int]] = {7: [], "seven": []}
        for step in range(3):
            for scale, sequence_id in enumerate(sums, start=1):
                result = self.client.infer(
                    "sequence_sum",
                    value_input(scale * (step + 1)),
                    sequence_id=sequence_id,
                    sequence_start=step == 0,
                    sequence_end=step == 2,
                )
                sums[sequence_id].append(int(result.as_numpy("SUM")[0][0]))
        self.assertEqual(sums, {7: [1, 3, 6], "seven": [2, 6, 12]})

    def test_classification_names_the_labels_of_the_shipped_digits(self) -> None:
        count = 0
        for digit, pixels in sample_digits():
            count += 1
            tensor = httpclient.InferInput("image", [1, 8, 8], "FP32")
            tensor.set_data_from_numpy(pixels)
            for is_binary in (True, False):
                output = httpclient.InferRequestedOutput(
                    "probabilities", binary_data=is_binary, class_count=3
                )
                classes = self.client.infer("digits", [tensor], outputs=[output]).as_numpy(
                    "probabilities"
                )
                self.assertEqual(classes.shape, (1, 3))
                texts = [c.decode() if isinstance(c, bytes) else c for c in classes[0]]
                values = [float(text.split(":")[0]) for text in texts]
                self.assertEqual(values, sorted(values, reverse=True))
                _, index, label = texts[0].split(":")
                labels = (self.server.repository / "digits" / "labels.txt").read_text().split("\n")
                self.assertEqual(index, digit)
                self.assertEqual(label, labels[int(digit)])
        self.assertGreater(count, 0)

    def test_raw_binary_request_is_the_only_input(self) -> None:
        with self.post(
            "/v2/models/echo_request/infer",
            "raw \u00e9".encode(),
            {"Inference-Header-Content-Length": "0", "Content-Type": "application/octet-stream"},
        ) as answer:
            header_length = int(answer.headers["Inference-Header-Content-Length"])
            body = answer.read()
        output = json.loads(body[:header_length])["outputs"][0]
        binary = body[header_length:]
        self.assertEqual(output["parameters"]["binary_data_size"], len(binary))
        self.assertEqual(json.loads(binary[4:])["text"], ["raw \u00e9"])

    def test_bodies_made_and_read_by_the_client_alone(self) -> None:
        first = np.ones((1, 16), np.float32)
        body, header_length = httpclient.InferenceServerClient.generate_request_body(
            add_sub_inputs(httpclient, first, first, is_binary=True),
            outputs=[httpclient.InferRequestedOutput("OUTPUT0", binary_data=True)],
        )
        with self.post(
            "/v2/models/add_sub/infer",
            body,
            {"Inference-Header-Content-Length": str(header_length)},
        ) as answer:
            result = httpclient.InferenceServerClient.parse_response_body(
                answer.read(), header_length=int(answer.headers["Inference-Header-Content-Length"])
            )
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first + first)

    def test_system_shared_memory_carries_inputs_and_outputs(self) -> None:
        key = f"/nereid-{uuid.uuid4().hex}"
        first = np.arange(16, dtype=np.float32).reshape(1, 16)
        second = np.full((1, 16), 2, np.float32)
        size = first.nbytes
        region = shm.create_shared_memory_region("tour", key, 4 * size)
        try:
            shm.set_shared_memory_region(region, [first, second])
            self.client.register_system_shared_memory("tour", key, 4 * size)
            self.assertEqual(
                self.client.get_system_shared_memory_status("tour"),
                [{"name": "tour", "key": key, "offset": 0, "byte_size": 4 * size}],
            )
            inputs = [
                httpclient.InferInput("INPUT0", [1, 16], "FP32"),
                httpclient.InferInput("INPUT1", [1, 16], "FP32"),
            ]
            inputs[0].set_shared_memory("tour", size)
            inputs[1].set_shared_memory("tour", size, offset=size)
            outputs = [
                httpclient.InferRequestedOutput("OUTPUT0"),
                httpclient.InferRequestedOutput("OUTPUT1"),
            ]
            outputs[0].set_shared_memory("tour", size, offset=2 * size)
            outputs[1].set_shared_memory("tour", size, offset=3 * size)
            result = self.client.infer("add_sub", inputs, outputs=outputs)
            self.assertEqual(
                result.get_output("OUTPUT0"),
                {"name": "OUTPUT0", "datatype": "FP32", "shape": [1, 16]},
            )
            for offset, expected in ((2, first + second), (3, first - second)):
                got = shm.get_contents_as_numpy(region, np.float32, [1, 16], offset=offset * size)
                np.testing.assert_array_equal(got, expected)
            with self.assertRaisesRegex(InferenceServerException, "already in manager"):
                self.client.register_system_shared_memory("tour", key, size)
            inputs[0].set_shared_memory("tour", size, offset=4 * size + 1)
            with self.assertRaisesRegex(InferenceServerException, "Invalid offset"):
                self.client.infer("add_sub", inputs)
            self.client.unregister_system_shared_memory("tour")
            with self.assertRaisesRegex(InferenceServerException, "Unable to find"):
                self.client.get_system_shared_memory_status("tour")
            self.client.unregister_system_shared_memory()
            self.assertEqual(self.client.get_system_shared_memory_status(), [])
        finally:
            shm.destroy_shared_memory_region(region)
        with self.assertRaisesRegex(InferenceServerException, "Unable to open"):
            self.client.register_system_shared_memory("gone", key, size)

    def test_cuda_shared_memory_is_refused_plainly(self) -> None:
        self.assertEqual(self.client.get_cuda_shared_memory_status(), [])
        with self.assertRaisesRegex(InferenceServerException, "GPUs not supported"):
            self.client.register_cuda_shared_memory("g", base64.b64encode(b"x" * 64), 0, 64)
        self.client.unregister_cuda_shared_memory()

    def test_trace_settings_of_all_models_and_of_one(self) -> None:
        everything = self.client.get_trace_settings()
        self.assertEqual(everything["trace_level"], ["OFF"])
        changed = self.client.update_trace_settings(
            "add_sub", {"trace_level": ["TIMESTAMPS"], "trace_rate": "7", "trace_count": "5"}
        )
        self.assertEqual(changed["trace_rate"], "7")
        self.assertEqual(self.client.get_trace_settings("add_sub"), changed)
        self.assertEqual(self.client.get_trace_settings(), everything)
        cleared = {"trace_level": None, "trace_rate": None, "trace_count": None}
        self.assertEqual(self.client.update_trace_settings("add_sub", cleared), everything)
        with self.assertRaises(InferenceServerException):
            self.client.update_trace_settings(settings={"trace_file": "/elsewhere"})

    def test_log_settings(self) -> None:
        before = self.client.get_log_settings()
        changed = self.client.update_log_settings({"log_verbose_level": 1, "log_info": False})
        self.assertEqual(changed, {**before, "log_verbose_level": 1, "log_info": False})
        back = {name: before[name] for name in ("log_verbose_level", "log_info")}
        self.assertEqual(self.client.update_log_settings(back), before)
        with self.assertRaisesRegex(InferenceServerException, "log file location can not be"):
            self.client.update_log_settings({"log_file": "/elsewhere"})

    def test_generate_answers_one_object(self) -> None:
        with self.post("/v2/models/echo_request/generate", b'{"TEXT":"one","extra":2}') as answer:
            self.assertEqual(answer.headers["Content-Type"], "application/json")
            document = json.load(answer)
        self.assertEqual(document["model_name"], "echo_request")
        seen = json.loads(document["SEEN"])
        self.assertEqual((seen["text"], seen["parameters"]), (["one"], {"extra": 2}))

    def test_generate_stream_sends_an_event_for_each_response(self) -> None:
        with self.post("/v2/models/words/generate_stream", b'{"text_input":"a b c"}') as answer:
            self.assertTrue(answer.headers["Content-Type"].startswith("text/event-stream"))
            events = answer.read().decode().split("\n\n")
        self.assertEqual(events.pop(), "")
        words = [json.loads(event.removeprefix("data: "))["text_output"] for event in events]
        self.assertEqual(words, ["a", "b", "c"])

    def test_generate_says_why_it_cannot(self) -> None:
        for path, body, status in (
            ("/v2/models/words/generate", b'{"text_input":"a b"}', 200),
            ("/v2/models/words/generate_stream", b"{}", 400),
            ("/v2/models/words/generate_stream", b"{", 400),
            ("/v2/models/nope/generate", b"{}", 404),
            ("/v2/models/words/infer", b'{"inputs":[]}', 501),
        ):
            with self.subTest(path=path, body=body):
                try:
                    with self.post(path, body) as answer:
                        got, text = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    got, text = error.code, error.read()
                self.assertEqual(got, status)
                self.assertIn("error", json.loads(text.removeprefix(b"data: ")))

    def test_without_explicit_control_models_stay_as_they_are(self) -> None:
        for call in (self.client.load_model, self.client.unload_model):
            with self.assertRaisesRegex(InferenceServerException, "explicit"):
                call("add_sub")
        self.assertTrue(self.client.is_model_ready("add_sub"))


class AsyncTourTest(TourTest):
    def tour(self, walk: Any) -> None:
        async def run() -> None:
            async with aioclient.InferenceServerClient(self.server.url) as client:
                await walk(client)

        asyncio.run(run())

    def test_infer_with_every_pair_of_compressions(self) -> None:
        async def walk(client: aioclient.InferenceServerClient) -> None:
            first = np.arange(16 * 64, dtype=np.float32).reshape(64, 16)
            second = np.full((64, 16), 3, np.float32)
            for request, response in COMPRESSIONS:
                for is_binary in (True, False):
                    outputs = [aioclient.InferRequestedOutput("OUTPUT0", binary_data=is_binary)]
                    result = await client.infer(
                        "add_sub",
                        add_sub_inputs(aioclient, first, second, is_binary),
                        outputs=outputs,
                        request_compression_algorithm=request,
                        response_compression_algorithm=response,
                    )
                    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first + second)

        self.tour(walk)

    def test_many_at_once(self) -> None:
        async def walk(client: aioclient.InferenceServerClient) -> None:
            async def one(number: int) -> None:
                first = np.full((1 + number % 3, 16), number, np.float32)
                inputs = add_sub_inputs(aioclient, first, first, number % 2 == 0)
                result = await client.infer("add_sub", inputs, request_id=str(number))
                self.assertEqual(result.get_response()["id"], str(number))
                np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first * 2)

            await asyncio.gather(*(one(number) for number in range(100)))

        self.tour(walk)

    def test_what_is_asked_of_the_server_and_its_models(self) -> None:
        async def walk(client: aioclient.InferenceServerClient) -> None:
            self.assertTrue(await client.is_server_live())
            self.assertTrue(await client.is_server_ready())
            self.assertTrue(await client.is_model_ready("add_sub", "1"))
            self.assertFalse(await client.is_model_ready("nope"))
            self.assertIn("binary_tensor_data", (await client.get_server_metadata())["extensions"])
            self.assertEqual((await client.get_model_metadata("add_sub"))["versions"], ["1"])
            self.assertEqual((await client.get_model_config("add_sub"))["name"], "add_sub")
            statistics = await client.get_inference_statistics("add_sub", "1")
            self.assertEqual(statistics["model_stats"][0]["name"], "add_sub")
            names = {row["name"] for row in await client.get_model_repository_index()}
            self.assertLess({"add_sub", "digits", "echo_request"}, names)

        self.tour(walk)

    def test_parameters_reach_the_model(self) -> None:
        async def walk(client: aioclient.InferenceServerClient) -> None:
            result = await client.infer(
                "echo_request",
                text_input(aioclient, "t"),
                request_id="i",
                sequence_id="s",
                sequence_start=True,
                sequence_end=True,
                priority=2,
                timeout=5_000_000,
                parameters={"p": "q"},
            )
            seen = json.loads(result.as_numpy("SEEN")[0])
            self.assertEqual(seen["correlationId"], "s")
            self.assertEqual((seen["isSequenceStart"], seen["isSequenceEnd"]), (True, True))
            self.assertEqual((seen["priority"], seen["timeoutUs"]), (2, 5_000_000))
            self.assertEqual((seen["id"], seen["parameters"]), ("i", {"p": "q"}))

        self.tour(walk)

    def test_shared_memory_and_settings(self) -> None:
        key = f"/nereid-{uuid.uuid4().hex}"
        first = np.arange(16, dtype=np.float32).reshape(1, 16)
        region = shm.create_shared_memory_region("aio", key, 2 * first.nbytes)
        self.addCleanup(shm.destroy_shared_memory_region, region)
        shm.set_shared_memory_region(region, [first])

        async def walk(client: aioclient.InferenceServerClient) -> None:
            await client.register_system_shared_memory("aio", key, 2 * first.nbytes)
            inputs = [aioclient.InferInput(n, [1, 16], "FP32") for n in ("INPUT0", "INPUT1")]
            for tensor in inputs:
                tensor.set_shared_memory("aio", first.nbytes)
            output = aioclient.InferRequestedOutput("OUTPUT0")
            output.set_shared_memory("aio", first.nbytes, offset=first.nbytes)
            await client.infer("add_sub", inputs, outputs=[output])
            got = shm.get_contents_as_numpy(region, np.float32, [1, 16], offset=first.nbytes)
            np.testing.assert_array_equal(got, first * 2)
            self.assertEqual((await client.get_system_shared_memory_status())[0]["key"], key)
            await client.unregister_system_shared_memory("aio")
            self.assertEqual(await client.get_cuda_shared_memory_status(), [])
            with self.assertRaisesRegex(InferenceServerException, "GPUs not supported"):
                await client.register_cuda_shared_memory("g", base64.b64encode(b"x"), 0, 64)
            await client.unregister_cuda_shared_memory()
            trace = await client.get_trace_settings()
            self.assertEqual(await client.update_trace_settings(settings={}), trace)
            log = await client.get_log_settings()
            info = {"log_info": log["log_info"]}
            self.assertEqual(await client.update_log_settings(info), log)

        self.tour(walk)

    def test_errors_are_raised_with_their_text(self) -> None:
        async def walk(client: aioclient.InferenceServerClient) -> None:
            first = np.zeros((1, 8), np.float32)
            with self.assertRaisesRegex(InferenceServerException, "unexpected shape for input"):
                await client.infer("add_sub", add_sub_inputs(aioclient, first, first, True))
            with self.assertRaisesRegex(InferenceServerException, "unknown model: 'nope'"):
                await client.get_model_config("nope")

        self.tour(walk)


class ExplicitTourTest(TourTest):
    @classmethod
    def flags(cls) -> list[str]:
        return ["--model-control-mode=explicit", "--load-model=add_sub"]

    def test_load_infer_and_unload(self) -> None:
        self.assertFalse(self.client.is_model_ready("add_sub_js"))
        self.client.load_model("add_sub_js")
        self.assertTrue(self.client.is_model_ready("add_sub_js"))
        first = np.ones((1, 16), np.float32)
        inputs = add_sub_inputs(httpclient, first, first, is_binary=True)
        result = self.client.infer("add_sub_js", inputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first * 2)
        self.client.unload_model("add_sub_js", unload_dependents=True)
        self.assertFalse(self.client.is_model_ready("add_sub_js"))
        states = {row["name"]: row.get("state") for row in self.client.get_model_repository_index()}
        self.assertEqual(states["add_sub"], "READY")
        self.assertNotEqual(states["add_sub_js"], "READY")
        with self.assertRaisesRegex(InferenceServerException, "has no available versions"):
            self.client.infer("add_sub_js", inputs)

    def test_load_with_a_configuration(self) -> None:
        self.client.load_model("digits")
        config = self.client.get_model_config("digits")
        self.assertEqual(config["max_batch_size"], 64)
        config["max_batch_size"] = 2
        config["dynamic_batching"]["preferred_batch_size"] = [2]
        self.client.load_model("digits", config=json.dumps(config))
        self.assertEqual(self.client.get_model_config("digits")["max_batch_size"], 2)
        self.client.unload_model("digits")

    def test_load_with_files(self) -> None:
        content = (self.server.repository / "add_sub" / "1" / "model.onnx").read_bytes()
        config = {**self.client.get_model_config("add_sub"), "name": "from_memory"}
        self.client.load_model(
            "from_memory", config=json.dumps(config), files={"file:1/model.onnx": content}
        )
        first = np.ones((1, 16), np.float32)
        inputs = add_sub_inputs(httpclient, first, first, is_binary=False)
        result = self.client.infer("from_memory", inputs)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), first * 0)
        self.client.unload_model("from_memory")

    def test_loads_that_fail_leave_what_is_served(self) -> None:
        with self.assertRaisesRegex(InferenceServerException, "failed to load 'nope'"):
            self.client.load_model("nope")
        with self.assertRaises(InferenceServerException):
            self.client.load_model("add_sub", config='{"max_batch_size":-5}')
        self.assertTrue(self.client.is_model_ready("add_sub"))
        with self.assertRaises(InferenceServerException):
            self.client.load_model("add_sub", files={"file:1/../../x": b"x"}, config="{}")
        self.assertTrue(self.client.is_model_ready("add_sub"))

    def test_asyncio_load_and_unload(self) -> None:
        async def walk() -> None:
            async with aioclient.InferenceServerClient(self.server.url) as client:
                await client.load_model("identity_bytes")
                self.assertTrue(await client.is_model_ready("identity_bytes"))
                await client.unload_model("identity_bytes")
                self.assertFalse(await client.is_model_ready("identity_bytes"))

        asyncio.run(walk())


class CarrierTourTest(SyncTourTest):
    """The same on Node's own HTTP."""

    @classmethod
    def flags(cls) -> list[str]:
        return ["--http-transport=node"]


# unittest finds the base class too.
del TourTest


if __name__ == "__main__":
    unittest.main()
