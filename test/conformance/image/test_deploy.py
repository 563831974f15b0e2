"""The files in deploy/ against the image: ports, probes, times; and the server runs as they say."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from clients.running_server import free_port

from image.addition import AdditionTest
from image.container import LOCKED, ROOT, Container, podman

DEPLOY = ROOT / "deploy"
S3_SERVER = ROOT / ".tools" / "bin" / "versitygw"
HADOLINT = Path(sys.executable).with_name("hadolint")
EXIT_TIMEOUT_S = 30
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": "secret"}


def exposed_ports() -> set[int]:
    found = podman("image", "inspect", "--format", "{{json .Config.ExposedPorts}}", "nereid:node-24")
    return {int(port.split("/")[0]) for port in json.loads(found.stdout)}


@contextmanager
def s3_server(buckets: Path) -> Iterator[str]:
    """A real S3 server; a folder in `buckets` is a bucket, a file in it an object."""
    port = free_port()
    access, secret = CREDENTIALS.values()
    command = [S3_SERVER, "--access", access, "--secret", secret, "--quiet"]
    command += ["--port", f"127.0.0.1:{port}", "posix", buckets]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


class KubernetesTest(AdditionTest):
    def setUp(self) -> None:
        documents = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
        self.deployment, self.service = documents
        self.template = self.deployment["spec"]["template"]
        self.pod = self.template["spec"]
        (self.container,) = self.pod["containers"]
        self.ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}

    def test_names_ports_that_the_image_has(self) -> None:
        self.assertEqual(set(self.ports.values()), exposed_ports())
        probes = [value for key, value in self.container.items() if key.endswith("Probe")]
        self.assertEqual(len(probes), 3)
        for probe in probes:
            self.assertEqual(probe["httpGet"]["port"], "http")
        for port in self.service["spec"]["ports"]:
            self.assertEqual(self.ports[port["targetPort"]], port["port"])
        scraped = self.template["metadata"]["annotations"]["prometheus.io/port"]
        self.assertEqual(int(scraped), self.ports["metrics"])

    def test_gives_a_stopping_server_its_time(self) -> None:
        seconds = dict(flag.lstrip("-").split("=") for flag in self.container["args"])
        own = int(seconds["shutdown-delay-secs"]) + int(seconds["exit-timeout-secs"])
        self.assertGreater(self.pod["terminationGracePeriodSeconds"], own)
        # A replica that stops is seen as not ready before its ports close.
        readiness = self.container["readinessProbe"]
        notice = readiness["periodSeconds"] * readiness.get("failureThreshold", 3)
        self.assertGreater(own, notice)

    def test_selects_its_own_pods(self) -> None:
        labels = self.template["metadata"]["labels"]
        self.assertEqual(self.deployment["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(self.service["spec"]["selector"], labels)

    def test_serves_a_bucket_with_what_the_pod_may_do(self) -> None:
        buckets = self.make_folder()
        models = buckets / "my-bucket" / "models"
        shutil.copytree(ROOT / "model_repository", models)
        (models / "broken" / "1").mkdir(parents=True)
        (models / "broken" / "1" / "model.onnx").write_bytes(b"no model")
        user = self.pod["securityContext"]["runAsUser"]
        options = [*LOCKED, "--user", str(user), "--security-opt", "no-new-privileges"]
        mounts = {mount["mountPath"] for mount in self.container["volumeMounts"]}
        self.assertIn("/tmp", mounts)
        for path in mounts - {"/tmp"}:
            options += ["--tmpfs", f"{path}:mode=1777"]
        variables = {**CREDENTIALS, "AWS_DEFAULT_REGION": "us-east-1", "PORT": "{http_port}"}
        with s3_server(buckets) as endpoint:
            flags = [flag.replace("s3://", f"s3://{endpoint}/") for flag in self.container["args"]]
            with Container("node-24", *flags, options=options, variables=variables) as server:
                self.assert_adds(server.url, "add_sub", [1, 16])
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    path = self.container[probe]["httpGet"]["path"]
                    self.assertEqual(server.status(path), 200, probe)
                scraped = self.template["metadata"]["annotations"]["prometheus.io/path"]
                self.assertEqual(server.status(scraped, server.metrics_port), 200)
                self.assertIn("broken", server.log())


class ComposeTest(AdditionTest):
    def setUp(self) -> None:
        document = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
        self.service = document["services"]["nereid"]

    def test_publishes_the_ports_of_the_image_and_waits_for_its_end(self) -> None:
        pairs = [port.split(":") for port in self.service["ports"]]
        self.assertEqual({int(inside) for _, inside in pairs}, exposed_ports())
        self.assertGreater(int(self.service["stop_grace_period"].rstrip("s")), EXIT_TIMEOUT_S)

    def test_mounts_a_folder_that_is_there(self) -> None:
        (volume,) = self.service["volumes"]
        source = volume.removeprefix("${MODELS:-").partition("}")[0]
        self.assertTrue((DEPLOY / source / "add_sub").is_dir())
        self.assertTrue((DEPLOY / self.service["build"] / "Dockerfile").is_file())

    def test_follows_the_mounted_folder(self) -> None:
        repository = self.make_folder()
        shutil.copytree(ROOT / "model_repository" / "add_sub", repository / "add_sub")
        flags = self.service["command"]
        with Container("node-24", *flags, options=LOCKED, repository=repository) as server:
            shutil.copytree(ROOT / "model_repository" / "add_sub_js", repository / "add_sub_js")
            server.wait_for_log("successfully loaded 'add_sub_js'")
            self.assert_adds(server.url, "add_sub_js", [1, 16])


class RailwayTest(AdditionTest):
    def test_asks_for_health_and_waits_for_its_end(self) -> None:
        document = json.loads((DEPLOY / "railway" / "railway.json").read_text())
        self.assertTrue((ROOT / document["build"]["dockerfilePath"]).is_file())
        self.assertGreater(document["deploy"]["drainingSeconds"], EXIT_TIMEOUT_S)
        with Container("node-24", variables={"PORT": "{http_port}"}) as server:
            self.assertEqual(server.status(document["deploy"]["healthcheckPath"]), 200)


class DockerfileTest(AdditionTest):
    def test_has_no_warning_of_the_linter(self) -> None:
        for file in (ROOT / "Dockerfile", DEPLOY / "python" / "Dockerfile"):
            command = [HADOLINT, "--no-color", "--failure-threshold", "warning", file]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 0, result.stdout)
