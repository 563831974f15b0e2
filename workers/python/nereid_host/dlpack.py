"""DLPack capsules, made and read without a framework (numpy has no BF16, and few versions of it
read capsules). Structures are those of dlpack.h, version 0: https://dmlc.github.io/dlpack.
"""

from __future__ import annotations

import ctypes
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from nereid_host.errors import TritonModelException

#: kDLCPU; pinned host memory reads the same way.
CPU = 1
_READABLE_DEVICES = (1, 3)

_INT, _UINT, _FLOAT, _BFLOAT, _BOOL = 0, 1, 2, 4, 6
_TYPES: Dict[str, Tuple[int, int]] = {
    "BOOL": (_BOOL, 8),
    "UINT8": (_UINT, 8),
    "UINT16": (_UINT, 16),
    "UINT32": (_UINT, 32),
    "UINT64": (_UINT, 64),
    "INT8": (_INT, 8),
    "INT16": (_INT, 16),
    "INT32": (_INT, 32),
    "INT64": (_INT, 64),
    "FP16": (_FLOAT, 16),
    "FP32": (_FLOAT, 32),
    "FP64": (_FLOAT, 64),
    "BF16": (_BFLOAT, 16),
}
_DATATYPES: Dict[Tuple[int, int], str] = {key: name for name, key in _TYPES.items()}


class _Device(ctypes.Structure):
    _fields_ = [("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _ManagedTensor(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_ManagedTensor))
_ManagedTensor._fields_ = [
    ("dl_tensor", _Tensor),
    ("manager_ctx", ctypes.c_void_p),
    ("deleter", _Deleter),
]

_Destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, _Destructor]
_capsule_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is_valid.restype = ctypes.c_int
_capsule_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_get = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_get.restype = ctypes.c_void_p
_capsule_get.argtypes = [ctypes.py_object, ctypes.c_char_p]
_capsule_set_name = ctypes.pythonapi.PyCapsule_SetName
_capsule_set_name.restype = ctypes.c_int
_capsule_set_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
# The same functions for a capsule that is being destroyed, which must not be referenced again.
_dying_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi)
)
_dying_get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

# Capsules keep a pointer to their name.
_FRESH = b"dltensor"
_USED = b"used_dltensor"

# What exported structures point to, by the structure's address, until its consumer frees it.
_exported: Dict[int, Tuple[Any, ...]] = {}


@_Deleter
def _free_exported(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


@_Destructor
def _destroy_capsule(capsule: int) -> None:
    # A capsule that nobody consumed still owns its structure.
    if _dying_is_valid(capsule, _FRESH):
        _exported.pop(_dying_get(capsule, _FRESH), None)


def to_capsule(array: np.ndarray, shape: Tuple[int, ...], datatype: str) -> Any:
    """A capsule over `array`'s memory (contiguous), which it keeps alive."""
    code, bits = _TYPES[datatype]
    dims = (ctypes.c_int64 * max(len(shape), 1))(*shape)
    managed = _ManagedTensor()
    managed.dl_tensor.data = array.ctypes.data
    managed.dl_tensor.device = _Device(CPU, 0)
    managed.dl_tensor.ndim = len(shape)
    managed.dl_tensor.dtype = _DataType(code, bits, 1)
    managed.dl_tensor.shape = dims
    managed.dl_tensor.strides = None
    managed.dl_tensor.byte_offset = 0
    managed.deleter = _free_exported
    address = ctypes.addressof(managed)
    _exported[address] = (managed, dims, array)
    return _capsule_new(address, _FRESH, _destroy_capsule)


class Imported(NamedTuple):
    datatype: str
    shape: Tuple[int, ...]
    #: Contiguous bytes, owned by us.
    data: np.ndarray


def from_capsule(name: str, source: Any) -> Imported:
    """Copies what a capsule or an exporter holds; the capsule is used up."""
    capsule = source
    if hasattr(source, "__dlpack__"):
        device_type = int(source.__dlpack_device__()[0])
        _check_device(name, device_type)
        capsule = source.__dlpack__()
    if not _capsule_is_valid(capsule, _FRESH):
        raise TritonModelException(
            "Tensor.from_dlpack '{}': expected an unused DLPack capsule or an object with "
            "__dlpack__, got {}".format(name, type(source).__name__)
        )
    managed = ctypes.cast(_capsule_get(capsule, _FRESH), ctypes.POINTER(_ManagedTensor))
    tensor = managed.contents.dl_tensor
    _check_device(name, tensor.device.device_type)
    key = (tensor.dtype.code, tensor.dtype.bits)
    if key not in _DATATYPES or tensor.dtype.lanes != 1:
        raise TritonModelException(
            "Tensor.from_dlpack '{}': no datatype has DLPack type code {} of {} bits and {} "
            "lanes".format(name, key[0], key[1], tensor.dtype.lanes)
        )
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    try:
        data = _copy_elements(tensor, shape, key[1] // 8)
    finally:
        _capsule_set_name(capsule, _USED)
        if managed.contents.deleter:
            managed.contents.deleter(managed)
    return Imported(_DATATYPES[key], shape, data)


def _copy_elements(tensor: _Tensor, shape: Tuple[int, ...], size: int) -> np.ndarray:
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0:
        return np.empty(0, np.uint8)
    strides: List[int] = []
    if tensor.strides:
        strides = [tensor.strides[axis] for axis in range(tensor.ndim)]
    else:
        step = 1
        for dim in reversed(shape):
            strides.insert(0, step)
            step *= dim
    low = sum(stride * (dim - 1) for stride, dim in zip(strides, shape) if stride < 0)
    high = sum(stride * (dim - 1) for stride, dim in zip(strides, shape) if stride > 0)
    start = tensor.data + tensor.byte_offset + low * size
    memory = (ctypes.c_uint8 * ((high - low + 1) * size)).from_address(start)
    view: np.ndarray = np.ndarray(
        shape,
        np.dtype("V{}".format(size)),
        memory,
        -low * size,
        [stride * size for stride in strides],
    )
    return np.frombuffer(view.tobytes(), np.uint8).copy()


def _check_device(name: str, device_type: int) -> None:
    if device_type not in _READABLE_DEVICES:
        raise TritonModelException(
            "Tensor.from_dlpack '{}': the tensor is on device type {}; copy it to the CPU "
            "first".format(name, device_type)
        )
