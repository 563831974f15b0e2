"""Starts the images that build.sh made, as a platform would.

The containers share the network of this machine (a bridge needs rights that a test machine may not
have), so every server in them listens on loopback only.
"""

from __future__ import annotations

import resource
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from clients.running_server import free_port

ROOT = Path(__file__).resolve().parents[3]
WORK = (ROOT / ".tools" / "image").resolve()
PODMAN = ["podman", "--root", str(WORK / "storage"), "--runroot", "/run/nereid-image"]
START_TIMEOUT_S = 120.0

# What a careful platform takes away: everything but /tmp is read-only, and root would have no rights.
LOCKED = ("--read-only", "--read-only-tmpfs=false", "--tmpfs", "/tmp", "--cap-drop", "all")


def podman(*arguments: str, ok: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs podman; `ok=False` leaves it to the caller to look at the exit code."""
    command = [*PODMAN, "--runtime", "runc", "--log-level", "fatal", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if ok and result.returncode != 0:
        raise RuntimeError(f"podman {arguments[0]}: {result.stderr.strip()}")
    return result


def resource_limits() -> list[str]:
    """Limits that podman may set here: its own defaults are above those of a test machine."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return ["--ulimit", f"nofile={files}:{files}", "--ulimit", "nproc=4096:4096"]


class Container:
    """A running image, as a context manager; ready when entered, removed when left.

    `{http_port}` in a flag or a variable stands for the port that this container is asked on.
    """

    def __init__(
        self,
        image: str,
        *flags: str,
        variables: Mapping[str, str] = {"NEREID_HTTP_PORT": "{http_port}"},
        options: Sequence[str] = (),
        repository: Path | None = None,
    ) -> None:
        self.http_port, self.grpc_port, self.metrics_port = free_port(), free_port(), free_port()
        self.flags = [
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}",
            *(flag.format(http_port=self.http_port) for flag in flags),
        ]
        self._image = f"localhost/nereid:{image}"
        self._options = list(options)
        for name, value in variables.items():
            self._options += ["--env", f"{name}={value.format(http_port=self.http_port)}"]
        if repository is not None:
            self._options += ["--volume", f"{repository}:/models:ro"]
        self._id = ""

    def __enter__(self) -> Container:
        start = ["run", "--detach", "--network", "host", *resource_limits(), *self._options]
        self._id = podman(*start, self._image, *self.flags).stdout.strip()
        deadline = time.monotonic() + START_TIMEOUT_S
        while self.status("/v2/health/ready") != 200:
            if not self.is_running() or time.monotonic() > deadline:
                log = self.log()
                self.__exit__()
                raise RuntimeError(f"{self._image} did not get ready:\n{log}")
            time.sleep(0.1)
        return self

    def __exit__(self, *_: object) -> None:
        podman("rm", "--force", "--time", "1", self._id)

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.http_port}"

    def is_running(self) -> bool:
        return podman("inspect", "--format", "{{.State.Running}}", self._id).stdout == "true\n"

    def status(self, path: str, port: int | None = None) -> int | None:
        """HTTP status of a GET; None where nobody answers."""
        try:
            url = f"http://127.0.0.1:{port or self.http_port}{path}"
            with urllib.request.urlopen(url, timeout=5) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def log(self) -> str:
        result = podman("logs", self._id)
        return result.stdout + result.stderr

    def wait_for_log(self, text: str, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while text not in self.log():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} is not in the log:\n{self.log()}")
            time.sleep(0.05)

    def shell(self, command: str) -> str:
        return podman("exec", self._id, "sh", "-c", command).stdout.strip()

    def health_check(self) -> int:
        """Exit code of the image's HEALTHCHECK."""
        return podman("healthcheck", "run", self._id, ok=False).returncode

    def send(self, number: signal.Signals) -> None:
        podman("kill", "--signal", number.name, self._id)

    def wait(self) -> int:
        """Exit code of the server, once it has ended."""
        return int(podman("wait", self._id).stdout)
