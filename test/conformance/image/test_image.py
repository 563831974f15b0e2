"""The container images: what is in them, and how the server in them behaves."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from clients.running_server import write_model

from image.addition import AdditionTest
from image.container import LOCKED, ROOT, Container, podman, resource_limits

# What the image adds to its base: 95 MB when this was written.
ADDED_BYTES_MAX = 110_000_000

NODE_MAJORS = (22, 24)

# Takes its time, so that a request is running when the container is stopped.
SLOW_MODEL = """export default class {
  async execute(requests) {
    console.log('slow is running');
    await new Promise((resolve) => setTimeout(resolve, 3000));
    return requests.map((request) => {
      const { datatype, shape, data } = request.getInput('INPUT0');
      return { outputs: [{ name: 'OUTPUT0', datatype, shape, data }] };
    });
  }
}
"""
SLOW_CONFIG = """backend: "javascript"
input [{ name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }]
output [{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }]
"""


def image_bytes(image: str) -> int:
    return int(podman("image", "inspect", "--format", "{{.Size}}", image).stdout)


class ImageTest(AdditionTest):
    def test_serves_the_shipped_models_on_each_promised_node(self) -> None:
        for major in NODE_MAJORS:
            with self.subTest(node=major), Container(f"node-{major}") as server:
                self.assertTrue(server.shell("node --version").startswith(f"v{major}."))
                self.assert_adds(server.url, "add_sub", [1, 16])
                self.assert_adds(server.url, "add_sub_js", [2, 16])

    def test_carries_http_on_uwebsockets(self) -> None:
        for major in NODE_MAJORS:
            # With "uws" the server does not start where the native module does not load.
            with (
                self.subTest(node=major),
                Container(f"node-{major}", "--http-transport=uws") as server,
            ):
                self.assertNotIn("node:http", server.log())

    def test_answers_over_grpc_and_gives_metrics(self) -> None:
        with Container("node-24") as server:
            tensor = triton_grpc.InferInput("INPUT0", [1, 2], "BYTES")
            tensor.set_data_from_numpy(np.array([[b"a", b"\xff"]], dtype=np.object_))
            with triton_grpc.InferenceServerClient(f"127.0.0.1:{server.grpc_port}") as client:
                answer = client.infer("identity_bytes", [tensor]).as_numpy("OUTPUT0")
            self.assertEqual(answer.reshape(-1).tolist(), [b"a", b"\xff"])
            self.assertEqual(server.status("/metrics", server.metrics_port), 200)

    def test_runs_as_process_1_of_a_user_that_cannot_change_the_server(self) -> None:
        with Container("node-24") as server:
            self.assertEqual(server.shell("id -u"), "1000")
            self.assertEqual(server.shell("find /app /models -writable ! -type l"), "")
            command = server.shell("tr '\\0' ' ' < /proc/1/cmdline").split()
            self.assertEqual(command, ["node", "/app/dist/src/main.js", *server.flags])

    def test_serves_with_a_read_only_root_and_no_capabilities(self) -> None:
        with Container("node-24", options=LOCKED) as server:
            self.assert_adds(server.url, "add_sub", [1, 16])
            self.assertEqual(server.shell("touch /home/node/x 2> /dev/null || echo no"), "no")

    def test_listens_on_the_port_that_the_platform_names(self) -> None:
        with Container("node-24", variables={"PORT": "{http_port}"}) as server:
            self.assert_adds(server.url, "add_sub", [1, 16])
            self.assertEqual(server.health_check(), 0)

    def test_passes_its_health_check_only_where_the_server_answers(self) -> None:
        with Container("node-24") as server:
            self.assertEqual(server.health_check(), 0)
        # The check asks the port of the variable: the option moves the server away from it.
        astray = {"NEREID_HTTP_PORT": "9"}
        with Container("node-24", "--http-port={http_port}", variables=astray) as server:
            self.assertNotEqual(server.health_check(), 0)

    def test_answers_what_is_running_before_it_ends_with_0(self) -> None:
        repository = self.make_folder()
        write_model(repository, "slow", SLOW_CONFIG, SLOW_MODEL)
        with Container("node-24", repository=repository) as server:
            answers: list[list[float]] = []

            def ask() -> None:
                tensor = triton_http.InferInput("INPUT0", [2], "FP32")
                tensor.set_data_from_numpy(np.ones(2, np.float32))
                with triton_http.InferenceServerClient(server.url) as client:
                    answers.append(client.infer("slow", [tensor]).as_numpy("OUTPUT0").tolist())

            asking = threading.Thread(target=ask)
            asking.start()
            server.wait_for_log("slow is running")
            server.send(signal.SIGTERM)
            self.assertEqual(server.wait(), 0)
            asking.join()
            self.assertEqual(answers, [[1.0, 1.0]])

    def test_ends_with_1_and_all_problems_where_options_are_wrong(self) -> None:
        run = ("run", "--rm", "--network", "host", *resource_limits(), "localhost/nereid:node-24")
        result = podman(*run, "--http-port=no", "--log-verbos=1", ok=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn("--http-port", result.stderr)
        self.assertIn("--log-verbos", result.stderr)

    def test_holds_native_modules_of_its_own_platform_only(self) -> None:
        with Container("node-24") as server:
            modules = server.shell("find /app/node_modules/uWebSockets.js -name '*.node'")
            self.assertRegex(modules, r"^\S+/uws_linux_\w+_137\.node$")
            libraries = server.shell("find /app/node_modules/onnxruntime-node/bin -type f")
            folders = {Path(file).parent for file in libraries.split()}
            self.assertEqual([folder.parent.name for folder in folders], ["linux"])
            self.assertEqual(server.shell("find /app -name typescript -o -name '*.pyc'"), "")
        added = image_bytes("localhost/nereid:node-24") - image_bytes("node:24-trixie-slim")
        self.assertLess(added, ADDED_BYTES_MAX)

    def test_runs_python_models_in_the_image_that_adds_python(self) -> None:
        models = ROOT / "examples" / "scenario" / "models"
        flags = ("--model-control-mode=explicit", "--load-model=add_sub")
        with Container("python", *flags, options=LOCKED, repository=models) as server:
            self.assert_adds(server.url, "add_sub", [4])

    def test_says_how_to_get_python_where_the_image_has_none(self) -> None:
        models = ROOT / "examples" / "scenario" / "models"
        flags = ("--model-control-mode=explicit", "--load-model=add_sub", "--exit-on-error=false")
        with Container("node-24", *flags, "--strict-readiness=false", repository=models) as server:
            self.assertIn("python3", server.log())
