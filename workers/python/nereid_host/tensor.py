"""Tensors as models see them."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np

from nereid_host import datatypes, dlpack
from nereid_host.errors import TritonModelException

_BYTES = datatypes.CODES["BYTES"]
_NUMPY_DTYPES = datatypes.NUMPY_DTYPES
_CODES_BY_CHAR = datatypes.CODES_BY_CHAR
_ndarray = np.ndarray


class Tensor:
    """A named array. An input's array is a view of the request's memory, free to be changed."""

    __slots__ = ("_name", "_code", "_shape", "_array", "_data", "_offset", "_length")

    def __init__(self, name: str, array: np.ndarray) -> None:
        if type(name) is not str:
            raise TritonModelException(
                "Tensor: the name must be a str, not {}".format(type(name).__name__)
            )
        if not isinstance(array, _ndarray):
            raise TritonModelException(
                "Tensor '{}': expected a numpy array, got {}".format(name, type(array).__name__)
            )
        dtype = array.dtype
        code = _CODES_BY_CHAR.get(dtype.char)
        if code is None:
            raise TritonModelException(
                "Tensor '{}': numpy type {} has no datatype of the protocol".format(name, dtype)
            )
        if not dtype.isnative:
            array = array.astype(dtype.newbyteorder("="))
        self._name = name
        self._code = code
        self._shape = array.shape
        self._array: Optional[np.ndarray] = array
        self._data: Any = None

    @classmethod
    def _of_bytes(
        cls, name: str, code: int, shape: Tuple[int, ...], data: Any, offset: int, length: int
    ) -> "Tensor":
        """A tensor whose array is made when it is asked for."""
        tensor = cls.__new__(cls)
        tensor._name = name
        tensor._code = code
        tensor._shape = shape
        tensor._array = None
        tensor._data = data
        tensor._offset = offset
        tensor._length = length
        return tensor

    def name(self) -> str:
        return self._name

    def shape(self) -> List[int]:
        return list(self._shape)

    def triton_dtype(self) -> str:
        """`TYPE_FP32`, as the model configuration writes it."""
        return datatypes.to_config_name(datatypes.DATATYPES[self._code])

    def is_cpu(self) -> bool:
        return True

    def as_numpy(self) -> np.ndarray:
        array = self._array
        if array is None:
            dtype = _NUMPY_DTYPES[self._code]
            if dtype is not None:
                array = _ndarray(self._shape, dtype, self._data, self._offset)
            elif self._code == _BYTES:
                array = datatypes.decode_bytes_elements(
                    self._data, self._offset, self._length
                ).reshape(self._shape)
            else:
                raise TritonModelException(
                    "Tensor '{}' is BF16, which numpy does not have: use to_dlpack() with a "
                    "framework that does".format(self._name)
                )
            self._array = array
        return array

    def to_dlpack(self) -> Any:
        """A DLPack capsule that shares the tensor's memory."""
        if self._code == _BYTES:
            raise TritonModelException(
                "Tensor '{}': DLPack has no strings".format(self._name)
            )
        if self._array is None:
            raw = _ndarray((self._length,), np.uint8, self._data, self._offset)
        else:
            raw = np.ascontiguousarray(self._array)
        return dlpack.to_capsule(raw, self._shape, datatypes.DATATYPES[self._code])

    def __dlpack__(self, *, stream: Any = None, **_: Any) -> Any:
        return self.to_dlpack()

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (dlpack.CPU, 0)

    @staticmethod
    def from_dlpack(name: str, tensor: Any) -> "Tensor":
        """A tensor over what a capsule, or an object with `__dlpack__`, holds in host memory."""
        if type(name) is not str:
            raise TritonModelException(
                "Tensor.from_dlpack: the name must be a str, not {}".format(type(name).__name__)
            )
        imported = dlpack.from_capsule(name, tensor)
        return Tensor._of_bytes(
            name,
            datatypes.CODES[imported.datatype],
            imported.shape,
            imported.data,
            0,
            imported.data.nbytes,
        )

    def _payload(self) -> Tuple[int, Tuple[int, ...], Union[bytes, memoryview, np.ndarray]]:
        """Code, shape and wire bytes."""
        array = self._array
        code = self._code
        if array is None:
            return code, self._shape, memoryview(self._data)[
                self._offset : self._offset + self._length
            ]
        if code == _BYTES:
            return code, array.shape, datatypes.encode_bytes_elements(array)
        if not array.flags.c_contiguous:
            array = np.ascontiguousarray(array)
        if array.size == 0:
            # A view with a zero in its shape cannot be cast.
            return code, self._shape, b""
        # reshape, not ravel: a scalar has no bytes view of its own.
        return code, self._shape, memoryview(array.reshape(-1)).cast("B")

    def __repr__(self) -> str:
        return "Tensor({!r}, {}, {})".format(
            self._name, datatypes.DATATYPES[self._code], list(self._shape)
        )


def by_name(tensors: List[Tensor]) -> Dict[str, Tensor]:
    return {tensor.name(): tensor for tensor in tensors}
