"""Writes the ONNX file of model_repository/add_sub: the sum and the difference of two vectors.

    pip install onnx
    python examples/add_sub/make_model.py
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import TensorProto, helper

WIDTH = 16
ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    def describe(name: str) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH])

    graph = helper.make_graph(
        [
            helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
            helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
        ],
        "add_sub",
        [describe("INPUT0"), describe("INPUT1")],
        [describe("OUTPUT0"), describe("OUTPUT1")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, ROOT / "model_repository/add_sub/1/model.onnx")


if __name__ == "__main__":
    main()
