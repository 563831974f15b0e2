"""What models of a framework's files have in common: rows of requests joined, outputs split."""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np

from nereid_host import datatypes
from nereid_host.errors import TritonError, TritonModelException, describe
from nereid_host.request import InferenceRequest
from nereid_host.response import InferenceResponse
from nereid_host.tensor import Tensor

#: Outputs of one run by name, rows of all requests joined.
RunOutputs = Dict[str, Tensor]
Run = Callable[[Dict[str, Tensor]], RunOutputs]


def import_framework(package: str, backend: str) -> Any:
    """The package, or an error that says how to have it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise TritonModelException(
            "{0} models need the Python package '{1}', which {2} cannot import ({3}): install it "
            "there, or name an interpreter that has it with --backend-config={0},interpreter=PATH "
            "or the model's parameter EXECUTION_ENV_PATH".format(
                backend, package, sys.executable, error
            )
        ) from None


def parameter(config: Dict[str, Any], name: str, default: str) -> str:
    """A parameter of the model configuration."""
    entry = config.get("parameters", {}).get(name)
    return default if entry is None else str(entry["string_value"])


def boolean_parameter(config: Dict[str, Any], name: str, default: bool) -> bool:
    text = parameter(config, name, "true" if default else "false").lower()
    if text not in ("true", "false", "1", "0"):
        raise TritonModelException(
            "parameter {} must be true or false, got '{}'".format(name, text)
        )
    return text in ("true", "1")


def integer_parameter(config: Dict[str, Any], name: str) -> Optional[int]:
    text = parameter(config, name, "")
    if text == "":
        return None
    try:
        return int(text)
    except ValueError:
        raise TritonModelException(
            "parameter {} must be a whole number, got '{}'".format(name, text)
        ) from None


class BatchRunner:
    """Runs requests together where their rows can be joined, one by one where not."""

    def __init__(self, run: Run, has_batching: bool) -> None:
        self._run = run
        self._has_batching = has_batching

    def execute(self, requests: List[InferenceRequest]) -> List[InferenceResponse]:
        if self._has_batching and len(requests) > 1 and _can_join(requests):
            return self._execute_joined(requests)
        return [self._execute_alone(request) for request in requests]

    def _execute_alone(self, request: InferenceRequest) -> InferenceResponse:
        try:
            outputs = self._run({tensor.name(): tensor for tensor in request.inputs()})
        except Exception as error:
            return InferenceResponse(error=TritonError(describe(error)))
        return InferenceResponse(list(outputs.values()))

    def _execute_joined(self, requests: List[InferenceRequest]) -> List[InferenceResponse]:
        rows = [request.inputs()[0]._shape[0] for request in requests]
        by_request = [{t.name(): t for t in request.inputs()} for request in requests]
        joined = {
            name: Tensor(name, np.concatenate([own[name].as_numpy() for own in by_request]))
            for name in by_request[0]
        }
        outputs = self._run(joined)
        bounds = np.cumsum([0, *rows])
        for output in outputs.values():
            if len(output._shape) == 0 or output._shape[0] != bounds[-1]:
                raise TritonModelException(
                    "output '{}' has shape {}, expected {} rows".format(
                        output.name(), list(output._shape), bounds[-1]
                    )
                )
        return [
            InferenceResponse(
                [Tensor(name, output.as_numpy()[start:end]) for name, output in outputs.items()]
            )
            for start, end in zip(bounds[:-1], bounds[1:])
        ]


def _can_join(requests: Sequence[InferenceRequest]) -> bool:
    first = _row_forms(requests[0])
    return first is not None and all(_row_forms(request) == first for request in requests[1:])


def _row_forms(request: InferenceRequest) -> Optional[Dict[str, Any]]:
    """What must be equal for rows to be joined; None where they cannot be."""
    forms: Dict[str, Any] = {}
    for tensor in request.inputs():
        # numpy cannot join what it does not have.
        if not tensor._shape or tensor._code == datatypes.CODES["BF16"]:
            return None
        forms[tensor.name()] = (tensor._code, tensor._shape[1:])
    return forms or None
