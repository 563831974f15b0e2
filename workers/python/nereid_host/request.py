"""InferenceRequest: a request that a model gets, or that it makes to another model."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from nereid_host import model_calls, wire
from nereid_host.errors import TritonModelException
from nereid_host.response import InferenceResponse, check_parameters
from nereid_host.response_sender import ResponseSender
from nereid_host.tensor import Tensor

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2

TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2


class PreferredMemory:
    """Where outputs of a call should lie. Everything lies in host memory here."""

    def __init__(self, preferred_memory_type: int, preferred_device_id: int = 0) -> None:
        self.preferred_memory_type = preferred_memory_type
        self.preferred_device_id = preferred_device_id


TRITONSERVER_MEMORY_CPU = 0
TRITONSERVER_MEMORY_GPU = 2


class InferenceRequest:
    """Inputs of an execution by name, or a call to another model (`exec`, `async_exec`)."""

    __slots__ = (
        "_head",
        "_payload",
        "_offset",
        "_id",
        "_flags",
        "_timeout",
        "_correlation",
        "_inputs",
        "_model_name",
        "_model_version",
        "_requested",
        "_parameters",
        "_execution",
        "_index",
        "_sender",
        "_trace",
        "_is_rescheduled",
    )

    def __init__(
        self,
        request_id: str = "",
        correlation_id: Union[int, str] = 0,
        inputs: Sequence[Tensor] = (),
        requested_output_names: Sequence[str] = (),
        model_name: str = "",
        model_version: int = -1,
        flags: int = 0,
        timeout: int = 0,
        preferred_memory: Optional[PreferredMemory] = None,
        trace: Any = None,
        parameters: Optional[Union[Dict[str, wire.Parameter], str]] = None,
    ) -> None:
        for tensor in inputs:
            if not isinstance(tensor, Tensor):
                raise TritonModelException(
                    "InferenceRequest: inputs must hold Tensor objects, got {}".format(
                        type(tensor).__name__
                    )
                )
        if not isinstance(correlation_id, (int, str)):
            raise TritonModelException(
                "InferenceRequest: correlation_id must be an int or a str, got {}".format(
                    type(correlation_id).__name__
                )
            )
        self._head: Optional[wire.Head] = None
        self._id = str(request_id)
        self._flags = int(flags)
        self._timeout = int(timeout)
        self._correlation: Union[int, str] = correlation_id
        self._inputs: Optional[List[Tensor]] = list(inputs)
        self._requested = list(requested_output_names)
        self._model_name = model_name
        self._model_version = int(model_version)
        self._parameters = check_parameters(parameters) if parameters else {}
        self._execution: Any = None
        self._index = 0
        self._sender: Optional[ResponseSender] = None
        self._trace = trace
        self._is_rescheduled = False

    def inputs(self) -> List[Tensor]:
        inputs = self._inputs
        if inputs is None:
            head = self._head
            assert head is not None
            payload = self._payload
            base = self._offset
            inputs = [
                Tensor._of_bytes(name, code, shape, payload, base + at, length)
                for name, code, shape, at, length in head.inputs
            ]
            self._inputs = inputs
        return inputs

    def requested_output_names(self) -> List[str]:
        return list(self._requested)

    def request_id(self) -> str:
        return self._id

    def correlation_id(self) -> Union[int, str]:
        return self._correlation

    def flags(self) -> int:
        return self._flags

    def set_flags(self, flags: int) -> None:
        self._flags = int(flags)

    def timeout(self) -> int:
        """Microseconds; 0 is none."""
        return self._timeout

    def parameters(self) -> str:
        """JSON text of an object."""
        return json.dumps(self._parameters)

    def model_name(self) -> str:
        return self._model_name

    def model_version(self) -> int:
        return self._model_version

    def trace(self) -> Any:
        return self._trace

    def preferred_memory(self) -> PreferredMemory:
        return PreferredMemory(TRITONSERVER_MEMORY_CPU)

    def is_cancelled(self) -> bool:
        """True once the client has gone. Asks the server each time."""
        execution = self._execution
        return execution is not None and execution.is_cancelled(self._index)

    def get_response_sender(self) -> ResponseSender:
        """Where responses go that `execute` does not return."""
        if self._sender is None:
            if self._execution is None:
                raise TritonModelException(
                    "get_response_sender: this request was made by the model, not sent to it"
                )
            self._sender = self._execution.new_sender(self._index, frozenset(self._requested))
        return self._sender

    def set_release_flags(self, flags: int) -> None:
        """What becomes of the request when `execute` returns.

        TRITONSERVER_REQUEST_RELEASE_RESCHEDULE has it executed again, in the place of a response;
        it needs `sequence_batching` with `iterative_sequence`.
        """
        if flags not in (TRITONSERVER_REQUEST_RELEASE_ALL, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException(
                "set_release_flags: flags must be TRITONSERVER_REQUEST_RELEASE_ALL or "
                "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE, got {}".format(flags)
            )
        if self._execution is None or self._execution.has_returned:
            raise TritonModelException(
                "set_release_flags: only a request of the execution under way has release flags"
            )
        self._is_rescheduled = flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE

    def exec(
        self, decoupled: bool = False
    ) -> Union[InferenceResponse, "model_calls.ResponseIterator"]:
        """Calls `model_name` and waits. An error is in the response, not raised.

        `decoupled` gives an iterator over the responses instead.
        """
        call = model_calls.start(self, decoupled)
        return call.responses() if decoupled else call.response()

    async def async_exec(self, decoupled: bool = False) -> Any:
        """`exec` that leaves the event loop running meanwhile."""
        call = model_calls.start(self, decoupled)
        if decoupled:
            return call.responses()
        return await call.response_async()


def get_input_tensor_by_name(request: InferenceRequest, name: str) -> Optional[Tensor]:
    """The request's input called `name`; None where it has none."""
    inputs = request._inputs
    if inputs is None:
        head = request._head
        assert head is not None
        found = head.by_name.get(name)
        if found is None:
            return None
        return Tensor._of_bytes(
            name, found.code, found.shape, request._payload, request._offset + found.offset,
            found.length,
        )
    for tensor in inputs:
        if tensor.name() == name:
            return tensor
    return None


def decode_requests(
    payload: Any, reader: wire.HeadReader, execution: Any
) -> Tuple[int, List[InferenceRequest]]:
    """Form and requests of a frame; their inputs stay bytes of `payload` until asked for."""
    count, form = wire.LIST_HEADER.unpack_from(payload)
    record = wire.LIST_HEADER.size
    position = record + wire.REQUEST_RECORD.size * count
    new = InferenceRequest.__new__
    unpack = wire.REQUEST_RECORD.unpack_from
    read = reader.read
    requests: List[InferenceRequest] = []
    for index in range(count):
        head_length, id_length, offset, flags, timeout, correlation = unpack(payload, record)
        record += wire.REQUEST_RECORD.size
        head = read(bytes(payload[position : position + head_length]), True)
        position += head_length
        request = new(InferenceRequest)
        if id_length:
            request._id = bytes(payload[position : position + id_length]).decode("utf-8", "replace")
            position += id_length
        else:
            request._id = ""
        request._head = head
        request._payload = payload
        request._offset = offset
        request._flags = flags
        request._timeout = timeout
        text = head.correlation_text
        request._correlation = correlation if text is None else text
        request._inputs = None
        request._requested = head.requested_outputs
        request._parameters = head.parameters
        request._model_name = ""
        request._model_version = -1
        request._execution = execution
        request._index = index
        request._sender = None
        request._trace = None
        request._is_rescheduled = False
        requests.append(request)
    return form, requests
