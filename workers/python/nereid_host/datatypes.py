"""Datatypes: names of the protocol, codes in frames, numpy types."""

from __future__ import annotations

import struct
from typing import Dict, List, Optional, Union

import numpy as np

#: Names by the code that frames carry; the server's table has the same order.
DATATYPES: List[str] = [
    "BOOL",
    "UINT8",
    "UINT16",
    "UINT32",
    "UINT64",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "FP16",
    "FP32",
    "FP64",
    "BF16",
    "BYTES",
]
CODES: Dict[str, int] = {name: code for code, name in enumerate(DATATYPES)}

_NUMPY_NAMES: Dict[str, str] = {
    "BOOL": "?",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
#: numpy type by code; None where elements are not numbers of numpy (BF16, BYTES).
NUMPY_DTYPES: List[Optional[np.dtype]] = [
    np.dtype(_NUMPY_NAMES[name]) if name in _NUMPY_NAMES else None for name in DATATYPES
]
#: Code by `dtype.char`, which is the cheapest key an array has. 64-bit integers have two.
CODES_BY_CHAR: Dict[str, int] = {
    **{dtype.char: code for code, dtype in enumerate(NUMPY_DTYPES) if dtype is not None},
    np.dtype(np.longlong).char: CODES["INT64"],
    np.dtype(np.ulonglong).char: CODES["UINT64"],
    np.dtype(np.int_).char: CODES["INT64" if np.dtype(np.int_).itemsize == 8 else "INT32"],
    np.dtype(np.uint).char: CODES["UINT64" if np.dtype(np.uint).itemsize == 8 else "UINT32"],
    np.dtype(np.intc).char: CODES["INT32"],
    np.dtype(np.uintc).char: CODES["UINT32"],
    "O": CODES["BYTES"],
    "S": CODES["BYTES"],
    "U": CODES["BYTES"],
}

_LENGTH = struct.Struct("<I")


def to_config_name(datatype: str) -> str:
    return "TYPE_STRING" if datatype == "BYTES" else "TYPE_" + datatype


def from_config_name(data_type: str) -> Optional[str]:
    """Datatype of a configuration's `TYPE_…`; None where there is none."""
    name = "BYTES" if data_type == "TYPE_STRING" else data_type[len("TYPE_") :]
    return name if name in CODES and data_type.startswith("TYPE_") else None


def decode_bytes_elements(
    data: Union[bytes, bytearray, memoryview], offset: int, length: int
) -> np.ndarray:
    """Elements, each behind a 4-byte length, as a flat object array of `bytes`."""
    elements: List[bytes] = []
    position = offset
    end = offset + length
    unpack = _LENGTH.unpack_from
    view = memoryview(data)
    while position < end:
        (size,) = unpack(data, position)
        position += 4
        elements.append(bytes(view[position : position + size]))
        position += size
    array = np.empty(len(elements), dtype=np.object_)
    # Assigned as one list: numpy must not look into the elements.
    array[:] = elements
    return array


def encode_bytes_elements(array: np.ndarray) -> bytes:
    """Inverse of `decode_bytes_elements`, row-major; text is encoded as UTF-8."""
    parts: List[bytes] = []
    pack = _LENGTH.pack
    for element in array.ravel(order="C").tolist():
        if isinstance(element, str):
            element = element.encode("utf-8")
        elif not isinstance(element, (bytes, bytearray)):
            # What an author puts into an object array is meant as text.
            element = str(element).encode("utf-8")
        parts.append(pack(len(element)))
        parts.append(element)
    return b"".join(parts)
