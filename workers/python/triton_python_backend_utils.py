"""What a `model.py` imports: requests, responses, tensors, and the server around the model."""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, Optional, Union

import numpy as np

from nereid_host import datatypes
from nereid_host.errors import TritonError, TritonModelException
from nereid_host.metrics import MetricFamily
from nereid_host.model_calls import ResponseIterator
from nereid_host.model_config import ModelConfig
from nereid_host.request import (
    TRITONSERVER_MEMORY_CPU,
    TRITONSERVER_MEMORY_GPU,
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_END,
    TRITONSERVER_REQUEST_FLAG_SEQUENCE_START,
    TRITONSERVER_REQUEST_RELEASE_ALL,
    TRITONSERVER_REQUEST_RELEASE_RESCHEDULE,
    InferenceRequest,
    PreferredMemory,
    get_input_tensor_by_name,
)
from nereid_host.response import InferenceResponse, get_output_tensor_by_name
from nereid_host.response_sender import TRITONSERVER_RESPONSE_COMPLETE_FINAL, ResponseSender
from nereid_host.server_link import get_link
from nereid_host.tensor import Tensor

__all__ = [
    "InferenceRequest",
    "InferenceResponse",
    "Logger",
    "MetricFamily",
    "ModelConfig",
    "PreferredMemory",
    "ResponseIterator",
    "ResponseSender",
    "TRITONSERVER_MEMORY_CPU",
    "TRITONSERVER_MEMORY_GPU",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_END",
    "TRITONSERVER_REQUEST_FLAG_SEQUENCE_START",
    "TRITONSERVER_REQUEST_RELEASE_ALL",
    "TRITONSERVER_REQUEST_RELEASE_RESCHEDULE",
    "TRITONSERVER_RESPONSE_COMPLETE_FINAL",
    "TRITON_STRING_TO_NUMPY",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "deserialize_bytes_tensor",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "is_model_ready",
    "load_model",
    "numpy_to_triton_type",
    "serialize_byte_tensor",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "unload_model",
    "using_decoupled_model_transaction_policy",
]

TRITON_STRING_TO_NUMPY: Dict[str, Any] = {
    "TYPE_BOOL": np.bool_,
    "TYPE_UINT8": np.uint8,
    "TYPE_UINT16": np.uint16,
    "TYPE_UINT32": np.uint32,
    "TYPE_UINT64": np.uint64,
    "TYPE_INT8": np.int8,
    "TYPE_INT16": np.int16,
    "TYPE_INT32": np.int32,
    "TYPE_INT64": np.int64,
    "TYPE_FP16": np.float16,
    "TYPE_FP32": np.float32,
    "TYPE_FP64": np.float64,
    "TYPE_STRING": np.object_,
}

# DataType of model_config.proto: its numbers are what numeric datatypes of models mean.
_PROTO_TYPES = ["TYPE_INVALID", *TRITON_STRING_TO_NUMPY, "TYPE_BF16"]

_LENGTH = struct.Struct("<I")


def triton_string_to_numpy(triton_type_string: str) -> Any:
    """numpy type of `TYPE_FP32`; `TYPE_STRING` is an object."""
    return TRITON_STRING_TO_NUMPY[triton_type_string]


def triton_to_numpy_type(data_type: Union[int, str]) -> Any:
    """numpy type of a datatype given by its number in the model configuration or its name."""
    name = _PROTO_TYPES[data_type] if isinstance(data_type, int) else str(data_type)
    if not name.startswith("TYPE_"):
        name = datatypes.to_config_name(name)
    return TRITON_STRING_TO_NUMPY[name]


def numpy_to_triton_type(data_type: Any) -> int:
    """Number, in the model configuration, of the datatype that a numpy type is."""
    dtype = np.dtype(data_type)
    code = datatypes.CODES_BY_CHAR.get(dtype.char)
    if code is None:
        raise TritonModelException("numpy type {} has no datatype of the protocol".format(dtype))
    return _PROTO_TYPES.index(datatypes.to_config_name(datatypes.DATATYPES[code]))


def serialize_byte_tensor(input_tensor: np.ndarray) -> Optional[np.ndarray]:
    """Elements, each behind its 4-byte length, as one element of a flat object array."""
    if input_tensor.size == 0:
        return None
    if datatypes.CODES_BY_CHAR.get(input_tensor.dtype.char) != datatypes.CODES["BYTES"]:
        raise TritonModelException(
            "serialize_byte_tensor: expected strings, got {}".format(input_tensor.dtype)
        )
    flat = np.empty(1, dtype=np.object_)
    flat[0] = datatypes.encode_bytes_elements(input_tensor)
    return flat


def deserialize_bytes_tensor(encoded_tensor: Any) -> np.ndarray:
    """Inverse of `serialize_byte_tensor` for its bytes: a flat object array of `bytes`."""
    data = bytes(encoded_tensor)
    return datatypes.decode_bytes_elements(data, 0, len(data))


def get_input_config_by_name(model_config: Dict[str, Any], name: str) -> Optional[Dict[str, Any]]:
    """The input called `name` of a parsed model configuration; None where it has none."""
    return _entry_by_name(model_config, "input", name)


def get_output_config_by_name(model_config: Dict[str, Any], name: str) -> Optional[Dict[str, Any]]:
    """The output called `name` of a parsed model configuration; None where it has none."""
    return _entry_by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config: Union[Dict[str, Any], str]) -> bool:
    if isinstance(model_config, str):
        model_config = json.loads(model_config)
    policy = model_config.get("model_transaction_policy") or {}
    return bool(policy.get("decoupled", False))


def load_model(
    model_name: str, config: Optional[str] = None, files: Optional[Dict[str, bytes]] = None
) -> None:
    """Loads or reloads a model; `files` are `{"file:1/model.py": bytes}` and need `config`."""
    get_link().control("load", model_name, "", config, files)


def unload_model(model_name: str) -> None:
    get_link().control("unload", model_name)


def is_model_ready(model_name: str, model_version: str = "") -> bool:
    return get_link().control("is-ready", model_name, str(model_version))


class Logger:
    """The server's log."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"
    VERBOSE = "verbose"

    @staticmethod
    def log(message: str, level: Any = "info") -> None:
        get_link().log(level if level in _LEVELS else "info", str(message))

    @staticmethod
    def log_info(message: str) -> None:
        get_link().log("info", str(message))

    @staticmethod
    def log_warn(message: str) -> None:
        get_link().log("warning", str(message))

    @staticmethod
    def log_error(message: str) -> None:
        get_link().log("error", str(message))

    @staticmethod
    def log_verbose(message: str) -> None:
        get_link().log("verbose", str(message))


_LEVELS = (Logger.ERROR, Logger.WARNING, Logger.INFO, Logger.VERBOSE)


def _entry_by_name(
    model_config: Dict[str, Any], kind: str, name: str
) -> Optional[Dict[str, Any]]:
    for entry in model_config.get(kind, []):
        if entry["name"] == name:
            return dict(entry)
    return None
