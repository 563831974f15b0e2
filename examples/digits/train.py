"""Trains the classifier of handwritten digits that model_repository/digits serves.

    pip install numpy onnx scikit-learn
    python examples/digits/train.py

Data: scikit-learn's handwritten digits, 1,797 images of 8 x 8 pixels from 0 to 16. One in five is
kept for the test and never seen in training; the others are also shown shifted by one pixel in
each direction. The network is a multilayer perceptron, written out as ONNX by hand. Everything is
seeded: the same versions give the same file.

Writes model_repository/digits/1/model.onnx, and to examples/digits/ one request of each digit,
taken from the test images that the network gets right.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

SEED = 7
HIDDEN_UNITS = (256, 96)
PIXEL_MAX = 16.0
REQUIRED_ACCURACY = 0.98
ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    images, digits = load_digits(return_X_y=True)
    train_images, test_images, train_digits, test_digits = train_test_split(
        images / PIXEL_MAX, digits, test_size=0.2, random_state=SEED, stratify=digits
    )
    network = MLPClassifier(
        HIDDEN_UNITS, alpha=1e-3, learning_rate_init=2e-3, max_iter=60, random_state=SEED
    )
    network.fit(*with_shifted_copies(train_images, train_digits))

    model = to_onnx(network)
    is_right = classify(model, test_images * PIXEL_MAX) == test_digits
    accuracy = float(np.mean(is_right))
    print(f"test accuracy {accuracy:.4f} on {len(test_digits)} images")
    if accuracy < REQUIRED_ACCURACY:
        raise SystemExit(f"accuracy is below {REQUIRED_ACCURACY}")

    path = ROOT / "model_repository/digits/1/model.onnx"
    onnx.save(model, path)
    print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
    write_requests(test_images[is_right] * PIXEL_MAX, test_digits[is_right])


def with_shifted_copies(
    images: NDArray[np.float64], digits: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The images, and each of them moved by one pixel left, right, up and down."""
    squares = images.reshape(-1, 8, 8)
    padded = np.pad(squares, ((0, 0), (1, 1), (1, 1)))
    offsets = [(1, 1), (0, 1), (2, 1), (1, 0), (1, 2)]
    copies = [padded[:, row : row + 8, column : column + 8] for row, column in offsets]
    return np.concatenate(copies).reshape(-1, 64), np.tile(digits, len(offsets))


def to_onnx(network: MLPClassifier) -> onnx.ModelProto:
    """image [batch, 8, 8] of 0..16 -> probabilities [batch, 10]."""
    nodes = [
        helper.make_node("Flatten", ["image"], ["pixels"], axis=1),
        helper.make_node("Mul", ["pixels", "scale"], ["layer0"]),
    ]
    weights = [numpy_helper.from_array(np.float32(1 / PIXEL_MAX), "scale")]
    layers = list(zip(network.coefs_, network.intercepts_))
    for index, (coefficients, intercepts) in enumerate(layers):
        weights += [
            numpy_helper.from_array(coefficients.astype(np.float32), f"weights{index}"),
            numpy_helper.from_array(intercepts.astype(np.float32), f"bias{index}"),
        ]
        operands = [f"layer{index}", f"weights{index}", f"bias{index}"]
        nodes.append(helper.make_node("Gemm", operands, [f"sum{index}"]))
        if index + 1 < len(layers):
            nodes.append(helper.make_node("Relu", [f"sum{index}"], [f"layer{index + 1}"]))
        else:
            nodes.append(helper.make_node("Softmax", [f"sum{index}"], ["probabilities"], axis=1))
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    return model


def classify(model: onnx.ModelProto, images: NDArray[np.float64]) -> NDArray[np.int64]:
    """By the ONNX file itself, not by the network that it was made from."""
    evaluator = onnx.reference.ReferenceEvaluator(model)
    batch = images.reshape(-1, 8, 8).astype(np.float32)
    (probabilities,) = evaluator.run(None, {"image": batch})
    return probabilities.argmax(axis=1)


def write_requests(images: NDArray[np.float64], digits: NDArray[np.int64]) -> None:
    """The first image of each digit, as the body of an infer request."""
    for digit in range(10):
        pixels = images[np.flatnonzero(digits == digit)[0]].round().astype(int)
        rows = ",\n      ".join(json.dumps(row.tolist()) for row in pixels.reshape(8, 8))
        text = f"""{{
  "inputs": [{{
    "name": "image", "datatype": "FP32", "shape": [1, 8, 8],
    "data": [
      {rows}
    ]
  }}],
  "outputs": [{{ "name": "probabilities", "parameters": {{ "classification": 3 }} }}]
}}
"""
        json.loads(text)
        (ROOT / f"examples/digits/digit-{digit}.json").write_text(text)


if __name__ == "__main__":
    main()
