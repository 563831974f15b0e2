"""Starts the compiled server on free loopback ports over a repository made for the tests."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MAIN = ROOT / "dist" / "src" / "main.js"
START_TIMEOUT_S = 60.0

# Protocol datatype -> configuration data type.
DATA_TYPES = {
    name: "TYPE_STRING" if name == "BYTES" else f"TYPE_{name}"
    for name in (
        "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP16 FP32 FP64 BF16 BYTES".split()
    )
}

IDENTITY_MODEL = """export default class {
  execute(requests) {
    return requests.map((request) => {
      const { datatype, shape, data } = request.getInput('INPUT0');
      return { outputs: [{ name: 'OUTPUT0', datatype, shape, data }] };
    });
  }
}
"""

MISBEHAVING_MODEL = """export default class {
  execute(requests) {
    return requests.map((request) => {
      const [mode] = request.getInput('MODE').data;
      if (mode === 1) throw new Error('boom from execute');
      if (mode === 2) {
        return { outputs: [{ name: 'OUT', datatype: 'INT32', shape: [5], data: new Int32Array(3) }] };
      }
      if (mode === 3) process.exit(3);
      if (mode === 4) for (;;);
      if (mode === 5) return Object.assign(new Error('not here'), { code: 'NOT_FOUND' });
      return { outputs: [{ name: 'OUT', datatype: 'INT32', shape: [1], data: Int32Array.of(mode) }] };
    });
  }
}
"""


# Answers after MS milliseconds.
SLOW_CONFIG = """backend: "javascript"
input [{ name: "MS" data_type: TYPE_INT32 dims: [ 1 ] }]
output [{ name: "MS" data_type: TYPE_INT32 dims: [ 1 ] }]
"""
SLOW_MODEL = """export default class {
  async execute([request]) {
    const ms = request.getInput('MS').data;
    await new Promise((resolve) => setTimeout(resolve, ms[0]));
    return [{ outputs: [{ name: 'MS', shape: [1], data: ms }] }];
  }
}
"""


def write_model(repository: Path, name: str, config: str, source: str) -> None:
    """Writes a JavaScript model with one version."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (version.parent / "config.pbtxt").write_text(config)
    (version / "model.mjs").write_text(source)


def write_repository(repository: Path) -> None:
    """The shipped models, an identity model of each datatype, a slow one and one that misbehaves."""
    shutil.copytree(ROOT / "model_repository", repository, dirs_exist_ok=True)
    for datatype, data_type in DATA_TYPES.items():
        write_model(
            repository,
            f"identity_{datatype.lower()}_js",
            f'backend: "javascript" max_batch_size: 0 '
            f'input [{{ name: "INPUT0" data_type: {data_type} dims: [ -1 ] }}] '
            f'output [{{ name: "OUTPUT0" data_type: {data_type} dims: [ -1 ] }}]\n',
            IDENTITY_MODEL,
        )
    write_model(
        repository,
        "misbehaving",
        'backend: "javascript" '
        'input [{ name: "MODE" data_type: TYPE_INT32 dims: [ 1 ] }] '
        'output [{ name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] }]\n',
        MISBEHAVING_MODEL,
    )
    write_model(repository, "slow", SLOW_CONFIG, SLOW_MODEL)


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RunningServer:
    """A server process; use as a context manager."""

    def __init__(self, *flags: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="nereid-clients-"))
        self.repository = self.directory / "models"
        write_repository(self.repository)
        self.http_port, self.grpc_port, self.metrics_port = free_port(), free_port(), free_port()
        self.log_path = self.directory / "server.log"
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.http_port}"

    def __enter__(self) -> RunningServer:
        command = [
            "node",
            str(MAIN),
            f"--model-repository={self.repository}",
            "--http-address=127.0.0.1",
            "--grpc-address=127.0.0.1",
            f"--http-port={self.http_port}",
            f"--grpc-port={self.grpc_port}",
            f"--metrics-port={self.metrics_port}",
            f"--backend-config=python,interpreter={sys.executable}",
            *self._flags,
        ]
        with self.log_path.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended:\n{self.log()}")
            try:
                urllib.request.urlopen(f"http://{self.url}/v2/health/ready", timeout=2).close()
                return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        self.__exit__()
        raise RuntimeError(f"the server did not get ready:\n{self.log()}")

    def __exit__(self, *_: object) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=35)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    @property
    def exit_code(self) -> int | None:
        return None if self._process is None else self._process.poll()

    def terminate(self) -> int:
        """SIGTERM; returns the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=35)

    def rss_bytes(self) -> int:
        assert self._process is not None
        with open(f"/proc/{self._process.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
