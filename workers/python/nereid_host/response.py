"""InferenceResponse: what a model answers, or got from a model it called."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from nereid_host import wire
from nereid_host.errors import TritonError, TritonModelException, encode_error
from nereid_host.tensor import Tensor

Result = Tuple[int, bytes, List[Any], int]


class InferenceResponse:
    """Output tensors, or an error of this one request; and parameters of the response."""

    __slots__ = ("_output_tensors", "_error", "_parameters")

    def __init__(
        self,
        output_tensors: Optional[Sequence[Tensor]] = None,
        error: Optional[TritonError] = None,
        parameters: Optional[Dict[str, wire.Parameter]] = None,
    ) -> None:
        tensors = list(output_tensors) if output_tensors is not None else []
        for tensor in tensors:
            if not isinstance(tensor, Tensor):
                raise TritonModelException(
                    "InferenceResponse: output_tensors must hold Tensor objects, got {}".format(
                        type(tensor).__name__
                    )
                )
        if error is not None and not isinstance(error, TritonError):
            if not isinstance(error, (str, BaseException)):
                raise TritonModelException(
                    "InferenceResponse: error must be a TritonError, got {}".format(
                        type(error).__name__
                    )
                )
            error = TritonError(str(error))
        self._output_tensors = tensors
        self._error = error
        self._parameters = check_parameters(parameters) if parameters else {}

    def output_tensors(self) -> List[Tensor]:
        return self._output_tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> Optional[TritonError]:
        return self._error

    def parameters(self) -> str:
        """JSON text, as `InferenceRequest.parameters`."""
        import json

        return json.dumps(self._parameters)

    def _result(self, requested: frozenset) -> Result:
        """The wire form, less the outputs that were not asked for."""
        error = self._error
        if error is not None:
            return wire.RESULT_ERROR, encode_error(error.message(), error.code()), [], 0
        tensors = self._output_tensors
        for tensor in tensors:
            if tensor._name not in requested:
                tensors = [kept for kept in tensors if kept._name in requested]
                break
        head, data, length = wire.encode_response_head(tensors, self._parameters)
        return wire.RESULT_RESPONSE, head, data, length


def get_output_tensor_by_name(response: InferenceResponse, name: str) -> Optional[Tensor]:
    """The response's output called `name`; None where it has none."""
    for tensor in response.output_tensors():
        if tensor.name() == name:
            return tensor
    return None


def check_parameters(parameters: Any) -> Dict[str, wire.Parameter]:
    """Parameters given as a dict or as JSON text of an object."""
    if isinstance(parameters, str):
        import json

        parameters = json.loads(parameters) if parameters else {}
    if not isinstance(parameters, dict):
        raise TritonModelException(
            "parameters must be a dict, got {}".format(type(parameters).__name__)
        )
    for name, value in parameters.items():
        if not isinstance(name, str) or not isinstance(value, (str, bool, int, float)):
            raise TritonModelException(
                "parameter {!r}: expected a str name and a str, bool, int or float value, got "
                "{}".format(name, type(value).__name__)
            )
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise TritonModelException(
                "parameter {!r}: {} does not fit in 64 bits".format(name, value)
            )
    return dict(parameters)


def decode_response(
    payload: Union[bytearray, memoryview], base: int, reader: wire.HeadReader
) -> InferenceResponse:
    """The one response of a result list that starts at `base`."""
    view = memoryview(payload)[base:]
    _, head_length, offset, _ = wire.RESULT_RECORD.unpack_from(view, wire.LIST_HEADER.size)
    start = wire.LIST_HEADER.size + wire.RESULT_RECORD.size
    head = reader.read(bytes(view[start : start + head_length]), has_priority=False)
    response = InferenceResponse(
        [
            Tensor._of_bytes(name, code, shape, view, offset + at, length)
            for name, code, shape, at, length in head.inputs
        ]
    )
    response._parameters = dict(head.parameters)
    return response
