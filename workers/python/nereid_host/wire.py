"""How requests and responses lie in a frame's payload. Little-endian throughout.

Request list            Result list
  u32 count, u32 form     u32 count, u32 0
  count x record          count x record
  count x (head, id)      count x head
  data, 8-byte aligned    data, 8-byte aligned

Request record: u32 head length, u32 id length, u32 data offset, u32 flags, u64 timeout in
microseconds, u64 numeric correlation id. The form is 0 for a batch, and 1 where each request is an
execution by itself. Result record: u32 kind, u32 head length, u32 data offset, u32 duration of a
request that was executed by itself, in steps of 100 ns. Data offsets count from the start of the payload; tensors follow one another there,
each on an 8-byte boundary.

A head says everything about a request or response but its bytes, and most traffic repeats a few
of them: both sides keep the parsed form of the heads they have seen, so that a usual request
costs one dictionary look-up. A head is:
  u16 inputs, u16 requested outputs, u16 parameters, u16 1 if a text correlation id follows
  u32 priority (requests only)
  inputs: text name, u8 datatype, u8 rank, i64 x rank dims, u64 byte length
  requested outputs: text
  parameters: text name, u8 kind, value (0: text, 1: u8, 2: i64, 3: f64)
  text correlation id
A text is u32 length and UTF-8.
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple, Union

from nereid_host.errors import TritonModelException
from nereid_host.tensor import Tensor

Parameter = Union[str, bool, int, float]

LIST_HEADER = struct.Struct("<II")
REQUEST_RECORD = struct.Struct("<IIIIQQ")
RESULT_RECORD = struct.Struct("<IIII")
_HEAD = struct.Struct("<HHHH")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")
_TYPE = struct.Struct("<BB")

FORM_EACH = 1

_DURATION_STEP_NS = 100
_DURATION_MAX = 0xFFFFFFFF

RESULT_RESPONSE = 0
RESULT_ERROR = 1
RESULT_STREAMED = 2
#: A stream's end without a response.
RESULT_NONE = 3
#: The request wants to be executed again.
RESULT_RESCHEDULED = 4
#: A request of a bundle that was not executed yet: the server sends it again.
RESULT_UNSTARTED = 5

# Heads kept; beyond this many different ones, remembering them does not pay.
_HEADS_MAX = 512
_ZEROS = bytes(8)
_OFFSET_MAX = 0xFFFFFFFF


class InputHead(NamedTuple):
    name: str
    code: int
    shape: Tuple[int, ...]
    #: From the request's first data byte.
    offset: int
    length: int


class Head(NamedTuple):
    inputs: Tuple[InputHead, ...]
    by_name: Dict[str, InputHead]
    requested_outputs: Tuple[str, ...]
    requested_set: frozenset
    parameters: Dict[str, Parameter]
    priority: int
    correlation_text: Any


class HeadReader:
    """Parses heads, most of them by recognising them."""

    def __init__(self, default_outputs: Sequence[str]) -> None:
        self._default_outputs = tuple(default_outputs)
        self._heads: Dict[bytes, Head] = {}

    def read(self, raw: bytes, has_priority: bool) -> Head:
        head = self._heads.get(raw)
        if head is None:
            head = self._parse(raw, has_priority)
            if len(self._heads) >= _HEADS_MAX:
                self._heads.clear()
            self._heads[raw] = head
        return head

    def _parse(self, raw: bytes, has_priority: bool) -> Head:
        input_count, output_count, parameter_count, has_text = _HEAD.unpack_from(raw)
        position = _HEAD.size
        priority = 0
        if has_priority:
            (priority,) = _U32.unpack_from(raw, position)
            position += 4
        inputs: List[InputHead] = []
        offset = 0
        for _ in range(input_count):
            name, position = _read_text(raw, position)
            code, rank = _TYPE.unpack_from(raw, position)
            position += _TYPE.size
            shape = struct.unpack_from("<{}q".format(rank), raw, position)
            position += 8 * rank
            (length,) = _U64.unpack_from(raw, position)
            position += 8
            inputs.append(InputHead(name, code, shape, offset, length))
            offset += (length + 7) & ~7
        outputs: List[str] = []
        for _ in range(output_count):
            name, position = _read_text(raw, position)
            outputs.append(name)
        parameters: Dict[str, Parameter] = {}
        for _ in range(parameter_count):
            name, position = _read_text(raw, position)
            parameters[name], position = _read_value(raw, position)
        correlation_text = None
        if has_text:
            correlation_text, position = _read_text(raw, position)
        requested = tuple(outputs) or self._default_outputs
        return Head(
            tuple(inputs),
            {head.name: head for head in inputs},
            requested,
            frozenset(requested),
            parameters,
            priority,
            correlation_text,
        )


# Descriptions of tensors sent before, by name, datatype and shape.
_descriptions: Dict[Tuple[str, int, Tuple[int, ...]], bytes] = {}


def _describe_tensor(name: str, code: int, shape: Tuple[int, ...]) -> bytes:
    key = (name, code, shape)
    text = _descriptions.get(key)
    if text is None:
        text = _text(name) + struct.pack("<BB{}q".format(len(shape)), code, len(shape), *shape)
        if len(_descriptions) >= _HEADS_MAX:
            _descriptions.clear()
        _descriptions[key] = text
    return text


def encode_tensors(tensors: Sequence[Tensor]) -> Tuple[bytes, List[Any], int]:
    """Their part of a head; their bytes, padded; the sum of these."""
    heads: List[bytes] = []
    data: List[Any] = []
    total = 0
    for tensor in tensors:
        code, shape, payload = tensor._payload()
        length = len(payload)
        heads.append(_describe_tensor(tensor._name, code, shape))
        heads.append(_U64.pack(length))
        data.append(payload)
        padding = -length & 7
        if padding:
            data.append(_ZEROS[:padding])
        total += length + padding
    return b"".join(heads), data, total


_NO_PARAMETERS: Tuple[bytes, int] = (b"", 0)


def encode_parameters(parameters: Dict[str, Parameter]) -> Tuple[bytes, int]:
    if not parameters:
        return _NO_PARAMETERS
    parts: List[bytes] = []
    for name, value in parameters.items():
        parts.append(_text(name))
        if isinstance(value, bool):
            parts.append(b"\1\1" if value else b"\1\0")
        elif isinstance(value, int):
            parts.append(b"\2" + _I64.pack(value))
        elif isinstance(value, float):
            parts.append(b"\3" + _F64.pack(value))
        else:
            parts.append(b"\0" + _text(value))
    return b"".join(parts), len(parameters)


def encode_response_head(
    tensors: Sequence[Tensor], parameters: Dict[str, Parameter]
) -> Tuple[bytes, List[Any], int]:
    head, data, total = encode_tensors(tensors)
    extra, parameter_count = encode_parameters(parameters)
    return _HEAD.pack(len(tensors), 0, parameter_count, 0) + head + extra, data, total


def encode_results(
    results: Sequence[Tuple[int, bytes, List[Any], int]], durations_ns: Sequence[int] = ()
) -> List[Any]:
    """Parts of a payload for `(kind, head, data parts, data length)` of each result.

    `durations_ns` are those of the requests that were executed by themselves.
    """
    count = len(results)
    offset = LIST_HEADER.size + RESULT_RECORD.size * count
    for result in results:
        offset += len(result[1])
    padding = -offset & 7
    offset += padding
    parts: List[Any] = [LIST_HEADER.pack(count, 0)]
    data: List[Any] = []
    heads: List[bytes] = []
    for index, (kind, head, payload, length) in enumerate(results):
        if offset > _OFFSET_MAX:
            raise TritonModelException("the responses of one execution exceed 4 GiB")
        duration = 0
        if durations_ns:
            duration = min(durations_ns[index] // _DURATION_STEP_NS, _DURATION_MAX)
        parts.append(RESULT_RECORD.pack(kind, len(head), offset, duration))
        heads.append(head)
        data += payload
        offset += length
    parts += heads
    if padding:
        parts.append(_ZEROS[:padding])
    parts += data
    return parts


def encode_request(
    request_id: str,
    flags: int,
    timeout_us: int,
    correlation_id: Union[int, str],
    priority: int,
    requested_outputs: Sequence[str],
    parameters: Dict[str, Parameter],
    tensors: Sequence[Tensor],
) -> List[Any]:
    """Parts of a request list of one."""
    tensor_head, data, _ = encode_tensors(tensors)
    extra, parameter_count = encode_parameters(parameters)
    has_text = isinstance(correlation_id, str)
    head = b"".join(
        [
            _HEAD.pack(len(tensors), len(requested_outputs), parameter_count, int(has_text)),
            _U32.pack(priority),
            tensor_head,
            *[_text(name) for name in requested_outputs],
            extra,
            _text(correlation_id) if isinstance(correlation_id, str) else b"",
        ]
    )
    raw_id = request_id.encode("utf-8", "replace")
    offset = LIST_HEADER.size + REQUEST_RECORD.size + len(head) + len(raw_id)
    padding = -offset & 7
    record = REQUEST_RECORD.pack(
        len(head),
        len(raw_id),
        offset + padding,
        flags,
        timeout_us,
        0 if isinstance(correlation_id, str) else correlation_id,
    )
    return [LIST_HEADER.pack(1, 0), record, head, raw_id, _ZEROS[:padding], *data]


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "replace")
    return _U32.pack(len(raw)) + raw


def _read_text(raw: bytes, position: int) -> Tuple[str, int]:
    (length,) = _U32.unpack_from(raw, position)
    position += 4
    return raw[position : position + length].decode("utf-8", "replace"), position + length


def _read_value(raw: bytes, position: int) -> Tuple[Parameter, int]:
    kind = raw[position]
    position += 1
    if kind == 0:
        return _read_text(raw, position)
    if kind == 1:
        return raw[position] != 0, position + 1
    if kind == 2:
        return _I64.unpack_from(raw, position)[0], position + 8
    return _F64.unpack_from(raw, position)[0], position + 8
