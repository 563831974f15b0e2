"""perf_analyzer, the reference server's own load program, against a running server."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from clients.running_server import ROOT, RunningServer, write_model

FOLDER = ROOT / ".tools" / "perf-analyzer"
TIMEOUT_S = 120
# Windows of a hundred requests, one of which is enough: nothing is measured here.
SHORT = (
    *("--measurement-mode", "count_windows", "--measurement-request-count", "100"),
    *("--stability-percentage", "999", "--max-trials", "3"),
)
# What it prints of the server's own times, which it reads from the statistics.
SERVER_TIMES = re.compile(
    r"Successful request count: (\d+)\n"
    r"\s+Avg request latency: (\d+) usec \(overhead (\d+) usec \+ queue (\d+) usec "
    r"\+ compute input (\d+) usec \+ compute infer (\d+) usec \+ compute output (\d+) usec\)"
)

# Takes 5 ms a batch, so that queue and compute times are no roundings.
STEADY_CONFIG = """backend: "javascript" max_batch_size: 2 dynamic_batching { }
input [{ name: "X" data_type: TYPE_FP32 dims: [ 4 ] }]
output [{ name: "Y" data_type: TYPE_FP32 dims: [ 4 ] }]
"""
STEADY_MODEL = """export default class {
  async execute(requests) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    return requests.map((request) => {
      const { shape, data } = request.getInput('X');
      return { outputs: [{ name: 'Y', shape, data }] };
    });
  }
}
"""
COUNTING_CONFIG = """backend: "javascript" max_batch_size: 1 sequence_batching {
  control_input [{
    name: "START" control [{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }]
  }]
}
input [{ name: "X" data_type: TYPE_INT32 dims: [ 1 ] }]
output [{ name: "Y" data_type: TYPE_INT32 dims: [ 1 ] }]
instance_group [{ count: 2 }]
"""
COUNTING_MODEL = """export default class {
  execute(requests) {
    return requests.map((request) => {
      const { shape, data } = request.getInput('X');
      return { outputs: [{ name: 'Y', shape, data }] };
    });
  }
}
"""


class PerfAnalyzerTest(unittest.TestCase):
    server: RunningServer

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = RunningServer("--allow-client-shm=true")
        write_model(cls.server.repository, "steady", STEADY_CONFIG, STEADY_MODEL)
        write_model(cls.server.repository, "counting", COUNTING_CONFIG, COUNTING_MODEL)
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.__enter__()

    def analyze(self, protocol: str, model: str, *arguments: str) -> tuple[str, list[dict[str, str]]]:
        """Runs the program to its end; returns what it printed and its table."""
        port = self.server.grpc_port if protocol == "grpc" else self.server.http_port
        with tempfile.TemporaryDirectory() as directory:
            table = Path(directory) / "table.csv"
            result = subprocess.run(
                [
                    str(FOLDER / "bin" / "perf_analyzer"),
                    *("-m", model, "-i", protocol, "-u", f"127.0.0.1:{port}"),
                    *("-f", str(table), *SHORT, *arguments),
                ],
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
                env={
                    **os.environ,
                    "LD_LIBRARY_PATH": str(FOLDER / "nvidia" / "cuda_runtime" / "lib"),
                },
            )
            printed = result.stdout + result.stderr
            self.assertEqual(result.returncode, 0, printed)
            with table.open(encoding="utf-8") as rows:
                return printed, list(csv.DictReader(rows))

    def test_range_of_concurrencies(self) -> None:
        for protocol in ("http", "grpc"):
            with self.subTest(protocol=protocol):
                printed, rows = self.analyze(protocol, "steady", "--concurrency-range", "1:5:4")
                self.assertEqual([row["Concurrency"] for row in rows], ["1", "5"])
                for row in rows:
                    self.assertGreater(float(row["Inferences/Second"]), 0)
                times = [[int(value) for value in found] for found in SERVER_TIMES.findall(printed)]
                self.assertEqual(len(times), 2, printed)
                for requests, latency, overhead, queue, given, infer, taken in times:
                    self.assertGreaterEqual(requests, 100)
                    self.assertGreaterEqual(infer, 4000)
                    # Each of them is rounded down.
                    parts = overhead + queue + given + infer + taken
                    self.assertLessEqual(abs(latency - parts), 5)
                # With five at once and two in a batch requests wait for at least one execution.
                self.assertGreater(times[1][3], times[0][3] + 2500)

    def test_other_ways_to_send(self) -> None:
        for protocol, *arguments in (
            ("grpc", "--async"),
            ("grpc", "--streaming", "--async"),
            ("grpc", "--grpc-compression-algorithm", "gzip"),
            ("grpc", "--shared-memory", "system"),
            ("http", "--shared-memory", "system"),
            ("http", "--input-tensor-format", "json", "--output-tensor-format", "json"),
            ("http", "--async", "-b", "2"),
        ):
            with self.subTest(protocol=protocol, arguments=arguments):
                printed, (row,) = self.analyze(
                    protocol, "add_sub", "--concurrency-range", "4:4", *arguments
                )
                self.assertGreater(float(row["Inferences/Second"]), 0)
                self.assertRegex(printed, SERVER_TIMES)

    def test_sequences(self) -> None:
        printed, (row,) = self.analyze(
            "grpc", "counting", "--streaming", "--sequence-length", "5", "--concurrency-range", "2:2"
        )
        self.assertGreater(float(row["Inferences/Second"]), 0)
        self.assertRegex(printed, SERVER_TIMES)


if __name__ == "__main__":
    unittest.main()
