"""Errors of models, and their text as clients and logs see it."""

from __future__ import annotations

import os
import struct
import traceback
from typing import List, Optional

_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

#: Names by the code that frames carry; the server's table has the same order.
ERROR_CODES: List[str] = [
    "UNKNOWN",
    "INTERNAL",
    "NOT_FOUND",
    "INVALID_ARG",
    "UNAVAILABLE",
    "UNSUPPORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
]
_CODE = struct.Struct("<I")


class TritonModelException(Exception):
    """A failure that a model, or this module on its behalf, reports."""


class TritonError:
    """A failure of one request. `code` becomes the status that the client gets."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7

    __slots__ = ("_message", "_code")

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        if not isinstance(code, int) or not 0 <= code < len(ERROR_CODES):
            raise TritonModelException(
                "TritonError: code {!r} is none of TritonError.{}".format(
                    code, ", ".join(ERROR_CODES)
                )
            )
        self._message = str(message)
        self._code = code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code

    def __str__(self) -> str:
        return self._message

    def __repr__(self) -> str:
        return "TritonError({!r}, TritonError.{})".format(
            self._message, ERROR_CODES[self._code]
        )


def encode_error(message: str, code: int = TritonError.INTERNAL) -> bytes:
    return _CODE.pack(code) + message.encode("utf-8", "replace")


def decode_error(payload: memoryview) -> TritonError:
    (code,) = _CODE.unpack_from(payload)
    return TritonError(bytes(payload[_CODE.size :]).decode("utf-8", "replace"), code)


def describe(error: BaseException) -> str:
    """`Type: message`, then the model's own frames, innermost first."""
    text = "{}: {}".format(type(error).__name__, error)
    frames: List[str] = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = frame.f_code.co_filename
        if not path.startswith("<frozen ") and not _is_own(path):
            frames.append("  {}({}): {}\n".format(path, line, frame.f_code.co_name))
    if not frames:
        return text
    return "{}\n\nAt:\n{}".format(text, "".join(reversed(frames)))


def _is_own(path: Optional[str]) -> bool:
    return path is not None and path.startswith(_OWN_FOLDER + os.sep)
