"""TensorFlow models: a SavedModel folder, or a frozen GraphDef."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List

import numpy as np

from nereid_host import framework
from nereid_host.errors import TritonModelException
from nereid_host.model_source import ModelSource
from nereid_host.request import InferenceRequest
from nereid_host.response import InferenceResponse
from nereid_host.tensor import Tensor

# Its start-up notices are many and say nothing about the model.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tf = framework.import_framework("tensorflow", "tensorflow")

_DEFAULT_SIGNATURE = "serving_default"
_DEFAULT_TAG = "serve"


class TritonPythonModel:
    """Inputs and outputs go by the names of the signature, or of the graph's tensors."""

    def bind_source(self, source: ModelSource, default_threads: int) -> None:
        self._source = source
        self._default_threads = default_threads

    def initialize(self, args: Dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        path = os.path.join(self._source.version_directory, self._source.filename)
        if not os.path.exists(path):
            raise TritonModelException("model file '{}' is missing".format(path))
        _set_threads(config, self._default_threads)
        if args["model_instance_kind"] != "GPU":
            tf.config.set_visible_devices([], "GPU")
        elif not tf.config.list_physical_devices("GPU"):
            raise TritonModelException(
                "KIND_GPU was asked for, but tensorflow {} of this interpreter sees no GPU".format(
                    tf.__version__
                )
            )
        inputs = [entry["name"] for entry in config["input"]]
        self._output_names: List[str] = [entry["name"] for entry in config["output"]]
        if config.get("platform") == "tensorflow_graphdef":
            self._function = _graph_function(path, inputs, self._output_names)
        else:
            self._function = self._load_signature(path, config)
        self._runner = framework.BatchRunner(self._run, config["max_batch_size"] > 0)

    def execute(self, requests: List[InferenceRequest]) -> List[InferenceResponse]:
        return self._runner.execute(requests)

    def _load_signature(self, path: str, config: Dict[str, Any]) -> Any:
        tag = framework.parameter(config, "TF_GRAPH_TAG", _DEFAULT_TAG)
        name = framework.parameter(config, "TF_SIGNATURE_DEF", _DEFAULT_SIGNATURE)
        # Kept: the variables of the signature live as long as the model.
        self._loaded = tf.saved_model.load(path, tags=[tag])
        signatures = self._loaded.signatures
        if name not in signatures:
            raise TritonModelException(
                "the SavedModel has no signature '{}', only {}: name one with the parameter "
                "TF_SIGNATURE_DEF".format(name, ", ".join(sorted(signatures)) or "none")
            )
        signature = signatures[name]
        self._check_names(signature, [entry["name"] for entry in config["input"]])
        return lambda arguments: signature(**arguments)

    def _check_names(self, signature: Any, inputs: List[str]) -> None:
        known = set(signature.structured_input_signature[1])
        for name in inputs:
            if name not in known:
                raise TritonModelException(
                    "unexpected inference input '{}', the signature has {}".format(
                        name, ", ".join(sorted(known))
                    )
                )
        for name in self._output_names:
            if name not in signature.structured_outputs:
                raise TritonModelException(
                    "unexpected inference output '{}', the signature has {}".format(
                        name, ", ".join(sorted(signature.structured_outputs))
                    )
                )

    def _run(self, inputs: Dict[str, Tensor]) -> framework.RunOutputs:
        returned = self._function(
            {name: tf.constant(tensor.as_numpy()) for name, tensor in inputs.items()}
        )
        return {
            name: Tensor(name, np.asarray(returned[name].numpy())) for name in self._output_names
        }


def _set_threads(config: Dict[str, Any], default_threads: int) -> None:
    intra = framework.integer_parameter(config, "TF_NUM_INTRA_THREADS") or default_threads
    inter = framework.integer_parameter(config, "TF_NUM_INTER_THREADS")
    if intra > 0:
        tf.config.threading.set_intra_op_parallelism_threads(intra)
    if inter:
        tf.config.threading.set_inter_op_parallelism_threads(inter)


def _graph_function(path: str, inputs: List[str], outputs: List[str]) -> Any:
    graph = tf.compat.v1.GraphDef()
    with open(path, "rb") as file:
        graph.ParseFromString(file.read())
    wrapped = tf.compat.v1.wrap_function(
        lambda: tf.graph_util.import_graph_def(graph, name=""), []
    )

    def tensors(names: List[str]) -> List[Any]:
        return [wrapped.graph.as_graph_element(_tensor_name(name)) for name in names]

    try:
        pruned = wrapped.prune(tensors(inputs), tensors(outputs))
    except (KeyError, ValueError) as error:
        raise TritonModelException("the graph lacks a tensor: {}".format(error)) from None

    def call(arguments: Dict[str, Any]) -> Dict[str, Any]:
        returned = pruned(*[arguments[name] for name in inputs])
        return dict(zip(outputs, returned))

    return call


def _tensor_name(name: str) -> str:
    return name if ":" in name else name + ":0"
