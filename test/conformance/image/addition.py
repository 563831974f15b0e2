"""What the tests of images share: a folder that containers can read, and sums that must be right."""

from __future__ import annotations

import shutil
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tritonclient.http as triton_http


class AdditionTest(unittest.TestCase):
    def make_folder(self) -> Path:
        """A folder for one test, which the user of the image may read."""
        folder = Path(tempfile.mkdtemp(prefix="nereid-image-"))
        self.addCleanup(shutil.rmtree, folder)
        folder.chmod(0o755)
        return folder

    def assert_adds(self, url: str, model: str, shape: Sequence[int]) -> None:
        """Asks a model of the shape of add_sub for sum and difference of `shape` numbers."""
        left = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        right = np.full(shape, 2, dtype=np.float32)
        inputs = []
        for name, values in (("INPUT0", left), ("INPUT1", right)):
            tensor = triton_http.InferInput(name, list(shape), "FP32")
            tensor.set_data_from_numpy(values)
            inputs.append(tensor)
        with triton_http.InferenceServerClient(url, connection_timeout=30) as client:
            answer = client.infer(model, inputs)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), left + right)
        np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), left - right)
