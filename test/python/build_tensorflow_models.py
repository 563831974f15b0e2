"""Writes the TensorFlow models that the tests serve: `python3 build_tensorflow_models.py FOLDER`."""

from __future__ import annotations

import os
import sys
from typing import Dict

import tensorflow as tf


class AddSub(tf.Module):
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, 2], tf.float32, name="left"),
            tf.TensorSpec([None, 2], tf.float32, name="right"),
        ]
    )
    def serve(self, left: tf.Tensor, right: tf.Tensor) -> Dict[str, tf.Tensor]:
        return {"sum": left + right, "difference": left - right}


def main(folder: str) -> None:
    module = AddSub()
    saved = os.path.join(folder, "savedmodel", "1", "model.savedmodel")
    tf.saved_model.save(module, saved, signatures={"serving_default": module.serve})
    with tf.Graph().as_default() as graph:
        left = tf.compat.v1.placeholder(tf.float32, [None, 2], name="left")
        right = tf.compat.v1.placeholder(tf.float32, [None, 2], name="right")
        tf.add(left, right, name="sum")
        tf.subtract(left, right, name="difference")
    frozen = os.path.join(folder, "graphdef", "1", "model.graphdef")
    os.makedirs(os.path.dirname(frozen))
    with open(frozen, "wb") as file:
        file.write(graph.as_graph_def().SerializeToString())


if __name__ == "__main__":
    main(sys.argv[1])
