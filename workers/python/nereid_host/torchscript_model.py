"""TorchScript models: `1/model.pt` through `torch.jit.load`."""

from __future__ import annotations

import json
import os
import re
from typing import Any, Dict, List, Optional

import numpy as np

from nereid_host import datatypes, framework
from nereid_host.errors import TritonModelException
from nereid_host.model_source import ModelSource
from nereid_host.request import InferenceRequest
from nereid_host.response import InferenceResponse
from nereid_host.tensor import Tensor

torch = framework.import_framework("torch", "pytorch")

_INDEXED = re.compile(r"^.+__(\d+)$")


class TritonPythonModel:
    """Inputs go to `forward` by name or by the index in `NAME__INDEX`; outputs likewise."""

    def bind_source(self, source: ModelSource, default_threads: int) -> None:
        self._source = source
        self._default_threads = default_threads

    def initialize(self, args: Dict[str, str]) -> None:
        config = json.loads(args["model_config"])
        if config.get("platform") == "torch_aoti":
            raise TritonModelException(
                "platform torch_aoti is not supported: save the model with torch.jit"
            )
        path = os.path.join(self._source.version_directory, self._source.filename)
        if not os.path.isfile(path):
            raise TritonModelException("model file '{}' is missing".format(path))
        _set_threads(config, self._default_threads)
        self._device = _device(args)
        self._module = torch.jit.load(path, map_location=self._device)
        self._module.eval()
        if framework.boolean_parameter(config, "DISABLE_OPTIMIZED_EXECUTION", False):
            torch.jit.set_fusion_strategy([("STATIC", 0)])
        # Inference mode is the leaner form of "no gradients".
        has_inference_mode = framework.boolean_parameter(config, "INFERENCE_MODE", True)
        self._guard = torch.inference_mode if has_inference_mode else torch.no_grad
        self._arguments = _argument_names(self._module)
        self._positions = _input_positions(
            [entry["name"] for entry in config["input"]], self._arguments
        )
        self._output_names: List[str] = [entry["name"] for entry in config["output"]]
        self._output_positions = _output_positions(self._output_names)
        self._runner = framework.BatchRunner(self._run, config["max_batch_size"] > 0)

    def execute(self, requests: List[InferenceRequest]) -> List[InferenceResponse]:
        return self._runner.execute(requests)

    def _run(self, inputs: Dict[str, Tensor]) -> framework.RunOutputs:
        # An input that a request left out is None, which an Optional argument takes.
        arguments: List[Any] = [None] * (max(self._positions.values(), default=-1) + 1)
        for name, tensor in inputs.items():
            arguments[self._positions[name]] = self._to_torch(tensor)
        with self._guard():
            returned = self._module(*arguments)
            return self._name_outputs(returned)

    def _to_torch(self, tensor: Tensor) -> Any:
        if tensor._code == datatypes.CODES["BYTES"]:
            # TorchScript has no arrays of text: a list of str is what it takes.
            return [element.decode("utf-8") for element in tensor.as_numpy().ravel()]
        if tensor._code == datatypes.CODES["BF16"]:
            return torch.utils.dlpack.from_dlpack(tensor.to_dlpack()).to(self._device)
        array = tensor.as_numpy()
        if not array.flags.writeable:
            array = array.copy()
        return torch.from_numpy(_with_torch_type(tensor.name(), array)).to(self._device)

    def _name_outputs(self, returned: Any) -> framework.RunOutputs:
        """By key of a dict, by index of a tuple or list; a tensor alone is the first."""
        if isinstance(returned, dict):
            missing = [name for name in self._output_names if name not in returned]
            if missing:
                raise TritonModelException(
                    "the model returned a dict with {}, but the configuration has output '{}'"
                    .format(sorted(map(str, returned)), missing[0])
                )
            return {name: _to_tensor(name, returned[name]) for name in self._output_names}
        values = list(returned) if _is_sequence(returned) else [returned]
        outputs: framework.RunOutputs = {}
        for name, position in self._output_positions.items():
            if position >= len(values):
                raise TritonModelException(
                    "the model returned {} output(s), but the configuration has output '{}' at "
                    "index {}".format(len(values), name, position)
                )
            outputs[name] = _to_tensor(name, values[position])
        return outputs



def _is_sequence(returned: Any) -> bool:
    # A list of text is one output of strings.
    return isinstance(returned, (tuple, list)) and not (
        returned and all(isinstance(value, str) for value in returned)
    )


def _set_threads(config: Dict[str, Any], default_threads: int) -> None:
    intra = framework.integer_parameter(config, "INTRA_OP_THREAD_COUNT") or default_threads
    if intra > 0:
        torch.set_num_threads(intra)
    inter = framework.integer_parameter(config, "INTER_OP_THREAD_COUNT")
    if inter:
        torch.set_num_interop_threads(inter)


def _device(args: Dict[str, str]) -> Any:
    if args["model_instance_kind"] != "GPU":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise TritonModelException(
            "KIND_GPU was asked for, but torch {} of this interpreter sees no GPU".format(
                torch.__version__
            )
        )
    return torch.device("cuda", int(args["model_instance_device_id"]))


def _argument_names(module: Any) -> List[str]:
    return [argument.name for argument in module.forward.schema.arguments[1:]]


def _input_positions(names: List[str], arguments: List[str]) -> Dict[str, int]:
    """Argument of each input. By name where all inputs are arguments, else by index."""
    if all(name in arguments for name in names):
        return {name: arguments.index(name) for name in names}
    positions: Dict[str, int] = {}
    for name in names:
        match = _INDEXED.match(name)
        if match is None or int(match.group(1)) >= len(arguments):
            raise TritonModelException(
                "input '{}' is no argument of forward ({}) and has no index of one: inputs are "
                "called like the arguments, or NAME__INDEX".format(name, ", ".join(arguments))
            )
        if int(match.group(1)) in positions.values():
            raise TritonModelException(
                "input '{}' has the index of another input".format(name)
            )
        positions[name] = int(match.group(1))
    return positions


def _output_positions(names: List[str]) -> Dict[str, int]:
    """Index in `NAME__INDEX`; where one has none, the order of the configuration counts."""
    matches = [_INDEXED.match(name) for name in names]
    if all(match is not None for match in matches):
        return {name: int(match.group(1)) for name, match in zip(names, matches) if match}
    return {name: position for position, name in enumerate(names)}


def _with_torch_type(name: str, array: np.ndarray) -> np.ndarray:
    """torch has few unsigned types; older versions have only uint8."""
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        raise TritonModelException(
            "input '{}' is {}, which torch does not have: use a signed type".format(
                name, array.dtype
            )
        )
    return array


def _to_tensor(name: str, value: Any) -> Tensor:
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().contiguous()
        if value.dtype == torch.bfloat16:
            return Tensor.from_dlpack(name, torch.utils.dlpack.to_dlpack(value))
        return Tensor(name, value.numpy())
    texts: Optional[List[str]] = None
    if isinstance(value, str):
        texts = [value]
    elif isinstance(value, list) and all(isinstance(element, str) for element in value):
        texts = value
    if texts is not None:
        return Tensor(name, np.array([text.encode("utf-8") for text in texts], dtype=np.object_))
    raise TritonModelException(
        "output '{}' must be a tensor or text, the model returned {}".format(
            name, type(value).__name__
        )
    )
