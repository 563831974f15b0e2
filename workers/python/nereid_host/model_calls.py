"""Calls of a model to other models (business logic scripting)."""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from typing import Any, Callable, Deque, Iterator, List, Optional

from nereid_host import channel as ch
from nereid_host import wire
from nereid_host.errors import TritonError, TritonModelException
from nereid_host.response import InferenceResponse, decode_response
from nereid_host.server_link import ServerLink, get_link

_CALL = struct.Struct("<IIqI")
_reader = wire.HeadReader(())


def start(request: Any, is_decoupled: bool) -> "Call":
    """Sends the call; the answer is waited for separately."""
    name = request.model_name()
    if not isinstance(name, str) or not name:
        raise TritonModelException("InferenceRequest: model_name is needed to call a model")
    link = get_link()
    call = Call(link, link.channel.new_id())
    raw_name = name.encode("utf-8")
    head = _CALL.pack(
        int(is_decoupled), link.current_execution_id, request.model_version(), len(raw_name)
    )
    padding = -(len(head) + len(raw_name)) & 7
    parts: List[Any] = [head, raw_name, bytes(padding)]
    parts += wire.encode_request(
        request.request_id(),
        request.flags(),
        request.timeout(),
        request.correlation_id(),
        0,
        request.requested_output_names(),
        request._parameters,
        request.inputs(),
    )
    link.calls[call.id] = call
    link.channel.send(ch.INFER, call.id, parts)
    return call


class Call:
    """A call under way. `on_…` are called by whichever thread reads the channel."""

    def __init__(self, link: ServerLink, call_id: int) -> None:
        self.id = call_id
        self._link = link
        self._payloads: Deque[Any] = deque()
        self._has_ended = False
        self._error: Optional[TritonError] = None
        self._wake: Optional[Callable[[], None]] = None

    def on_response(self, payload: Any) -> None:
        self._payloads.append(payload)
        self._notify()

    def on_end(self, error: Optional[TritonError]) -> None:
        self._error = error
        self._has_ended = True
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake()

    def cancel(self) -> None:
        if not self._has_ended:
            self._link.channel.send(ch.INFER_CANCEL, self.id)

    def response(self) -> InferenceResponse:
        self._link.channel.wait_until(lambda: self._has_ended)
        return self._only_response()

    async def response_async(self) -> InferenceResponse:
        while not self._has_ended:
            await self._changed()
        return self._only_response()

    def responses(self) -> "ResponseIterator":
        return ResponseIterator(self)

    def next_response(self) -> Optional[InferenceResponse]:
        """The next response, an error as the last of them, None after the end."""
        self._link.channel.wait_until(lambda: bool(self._payloads) or self._has_ended)
        return self._take()

    async def next_response_async(self) -> Optional[InferenceResponse]:
        while not self._payloads and not self._has_ended:
            await self._changed()
        return self._take()

    def _only_response(self) -> InferenceResponse:
        if self._error is not None:
            return InferenceResponse(error=self._error)
        if not self._payloads:
            return InferenceResponse(
                error=TritonError("the called model gave no response", TritonError.INTERNAL)
            )
        return decode_response(self._payloads[0], 0, _reader)

    def _take(self) -> Optional[InferenceResponse]:
        if self._payloads:
            return decode_response(self._payloads.popleft(), 0, _reader)
        error, self._error = self._error, None
        return None if error is None else InferenceResponse(error=error)

    async def _changed(self) -> None:
        loop = asyncio.get_running_loop()
        changed = asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(changed.set)
        # What came before `_wake` was set has woken nobody.
        if not self._payloads and not self._has_ended:
            self._link.read_for_coroutines()
            await changed.wait()
        elif not self._has_ended:
            await asyncio.sleep(0)


class ResponseIterator:
    """Responses of a decoupled model, as they come; also for `async for`."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def __iter__(self) -> Iterator[InferenceResponse]:
        return self

    def __next__(self) -> InferenceResponse:
        response = self._call.next_response()
        if response is None:
            raise StopIteration
        return response

    def __aiter__(self) -> "ResponseIterator":
        return self

    async def __anext__(self) -> InferenceResponse:
        response = await self._call.next_response_async()
        if response is None:
            raise StopAsyncIteration
        return response

    def cancel(self) -> None:
        """Tells the called model that no more is wanted."""
        self._call.cancel()
