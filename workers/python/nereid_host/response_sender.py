"""ResponseSender: responses that `execute` does not return."""

from __future__ import annotations

import asyncio
import struct
import threading
from typing import Any, List, Optional

from nereid_host import channel as ch
from nereid_host import wire
from nereid_host.errors import TritonModelException
from nereid_host.response import InferenceResponse, Result
from nereid_host.server_link import ServerLink

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1

#: Responses of one stream that may be on their way; the next one waits for the reader.
CREDIT_MAX = 32

_STREAM = struct.Struct("<II")


class ResponseSender:
    """Sends responses of one request, from any thread, also after `execute` has returned."""

    def __init__(self, outlet: Any, requested: frozenset) -> None:
        self._outlet = outlet
        self._requested = requested
        self._lock = threading.Lock()
        self._is_final = False

    def send(self, response: Optional[InferenceResponse] = None, flags: int = 0) -> None:
        """Sends `response`, or with TRITONSERVER_RESPONSE_COMPLETE_FINAL the end, or both."""
        if flags not in (0, TRITONSERVER_RESPONSE_COMPLETE_FINAL):
            raise TritonModelException(
                "ResponseSender.send: flags must be 0 or TRITONSERVER_RESPONSE_COMPLETE_FINAL, "
                "got {}".format(flags)
            )
        if response is not None and not isinstance(response, InferenceResponse):
            raise TritonModelException(
                "ResponseSender.send: expected an InferenceResponse, got {}".format(
                    type(response).__name__
                )
            )
        if response is None and flags == 0:
            raise TritonModelException(
                "ResponseSender.send: a response is needed unless flags say that it is the end"
            )
        result: Result = (wire.RESULT_NONE, b"", [], 0)
        if response is not None:
            result = response._result(self._requested)
        with self._lock:
            if self._is_final:
                raise TritonModelException(
                    "ResponseSender.send: nothing can be sent after the final response"
                )
            self._outlet.send(result, flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            self._is_final = flags == TRITONSERVER_RESPONSE_COMPLETE_FINAL

    def is_cancelled(self) -> bool:
        """True once the client has gone."""
        return bool(self._outlet.is_cancelled())

    def _fail(self, error: bytes) -> None:
        """Ends an unfinished stream with an encoded error."""
        with self._lock:
            if not self._is_final:
                self._is_final = True
                self._outlet.send((wire.RESULT_ERROR, error, [], 0), True)

    def _hand_back(self) -> bool:
        """Closes a stream without ending it: another execution goes on. False after its end."""
        with self._lock:
            if self._is_final:
                return False
            self._is_final = True
            self._outlet.hand_back()
            return True

    def __del__(self) -> None:
        if not self._is_final:
            self._outlet.abandon()


class Stream:
    """Outlet of a decoupled model's request: each response is a frame."""

    def __init__(self, link: ServerLink, execution_id: int, index: int) -> None:
        self._link = link
        self._execution_id = execution_id
        self._index = index
        self._on_the_way = 0
        link.streams[(execution_id, index)] = self

    def send(self, result: Result, is_final: bool) -> None:
        if result[0] == wire.RESULT_RESPONSE:
            self._await_credit()
            self._on_the_way += 1
        parts: List[Any] = [_STREAM.pack(self._index, int(is_final))]
        parts += wire.encode_results([result])
        self._link.channel.send(ch.STREAM_RESPONSE, self._execution_id, parts)
        if is_final:
            self._link.streams.pop((self._execution_id, self._index), None)

    def on_credit(self, count: int) -> None:
        self._on_the_way -= count

    def is_cancelled(self) -> bool:
        return self._link.is_cancelled(self._execution_id, self._index)

    def hand_back(self) -> None:
        self._link.streams.pop((self._execution_id, self._index), None)

    def abandon(self) -> None:
        """The model dropped its sender without ending the stream."""
        self._link.streams.pop((self._execution_id, self._index), None)
        payload = b"".join([_STREAM.pack(self._index, 1)] + wire.encode_results([_ABANDONED]))
        self._link.channel.send_from_finalizer(ch.STREAM_RESPONSE, self._execution_id, payload)
        text = b"a response sender was dropped before it sent the final response"
        self._link.channel.send_from_finalizer(ch.LOG, 0, text)

    def _await_credit(self) -> None:
        if self._on_the_way < CREDIT_MAX:
            return
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._link.channel.wait_until(lambda: self._on_the_way < CREDIT_MAX)
        # In an event loop, waiting here would hold every other stream of this model.


_ABANDONED: Result = (wire.RESULT_NONE, b"", [], 0)


class SingleResponse:
    """Outlet of a request to a model that is not decoupled: one response, kept for the reply."""

    def __init__(self, link: ServerLink, execution_id: int, index: int) -> None:
        self._link = link
        self._execution_id = execution_id
        self._index = index
        self._finished = threading.Event()
        self.result: Optional[Result] = None

    def send(self, result: Result, is_final: bool) -> None:
        if result[0] != wire.RESULT_NONE:
            if self.result is not None:
                raise TritonModelException(
                    "ResponseSender.send: a model that is not decoupled sends exactly one response"
                )
            self.result = result
        if is_final:
            self._finished.set()

    def wait(self) -> Optional[Result]:
        """The response, once the end was sent or the sender dropped."""
        self._finished.wait()
        return self.result

    def is_cancelled(self) -> bool:
        return self._link.is_cancelled(self._execution_id, self._index)

    def abandon(self) -> None:
        self._finished.set()
