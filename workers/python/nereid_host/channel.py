"""Frames over the socket that connects this process with its server thread.

A frame is a 16-byte header (little-endian: u32 type, u32 id, u64 payload length) and a payload.
Any thread may send. Reading has no thread of its own, because handing each request from a reader
to the model's thread costs more than the whole frame: whoever waits for something reads, and
dispatches what belongs to others (leader and followers).

The payload of a large execution, and of its answer, lies in a file in memory that both processes
have open: bit 31 of the type says so, and only the header is on the socket.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
from collections import deque
from typing import Callable, Deque, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np

HEADER = struct.Struct("<IIQ")

# Server to host.
LOAD = 1
AUTO_COMPLETE = 2
INITIALIZE = 3
EXECUTE = 4
IS_READY = 5
FINALIZE = 6
INFER_RESPONSE = 7
INFER_END = 8
CONTROL_RESULT = 9
CANCEL_STATE = 10
STREAM_CREDIT = 11

# Host to server.
HELLO = 32
DONE = 33
FAILED = 34
EXECUTED = 35
STREAM_RESPONSE = 36
INFER = 37
INFER_CANCEL = 38
CONTROL = 39
LOG = 40
METRIC = 41
CANCEL_QUERY = 42

_SHARED_FLAG = 0x80000000
# The server writes at the start of the shared file, this process behind it.
_SHARED_BYTES_MAX = 8 * 1024 * 1024
_SHARED_BYTES_MIN = 64 * 1024
_ANSWER_POSITION = _SHARED_BYTES_MAX

# A read takes what is there up to this much: one system call for a usual request.
_SCRATCH_BYTES = 64 * 1024
# Parts of at least this size are sent from where they are; smaller ones are joined first.
_GATHER_BYTES = 16 * 1024
# The kernel refuses longer vectors.
_GATHER_PARTS_MAX = 512

Payload = Union[bytes, bytearray, memoryview]


class Frame(NamedTuple):
    kind: int
    id: int
    payload: Payload


class Channel:
    """The socket to the server thread. The process ends when the server's end is closed."""

    def __init__(self, sock: socket.socket, shared_fd: Optional[int] = None) -> None:
        self._socket = sock
        self._shared_fd = shared_fd
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._start = 0
        self._end = 0
        self._condition = threading.Condition(threading.Lock())
        self._has_reader = False
        self._waiters = 0
        self._inbox: Deque[Frame] = deque()
        self._handlers: Dict[int, Callable[[Frame], None]] = {}
        self._write_lock = threading.Lock()
        self._deferred: Deque[Sequence[Payload]] = deque()
        self._next_id = 0

    def handle(self, kind: int, handler: Callable[[Frame], None]) -> None:
        """Gives frames of a kind to `handler` (which must not block) instead of the inbox."""
        self._handlers[kind] = handler

    def new_id(self) -> int:
        with self._condition:
            self._next_id = (self._next_id + 1) & 0xFFFFFFFF
            return self._next_id

    def receive(self) -> Frame:
        """The next frame for the model's own thread."""
        inbox = self._inbox
        if not inbox:
            self.wait_until(lambda: bool(inbox))
        return inbox.popleft()

    def wait_until(self, is_done: Callable[[], bool]) -> None:
        """Blocks until `is_done`, which only dispatched frames and `notify` can make true."""
        condition = self._condition
        with condition:
            while not is_done():
                if self._has_reader:
                    self._waiters += 1
                    condition.wait()
                    self._waiters -= 1
                    continue
                self._has_reader = True
                condition.release()
                try:
                    frame = self._read_frame()
                finally:
                    condition.acquire()
                    self._has_reader = False
                handler = self._handlers.get(frame.kind)
                if handler is None:
                    self._inbox.append(frame)
                else:
                    handler(frame)
                if self._waiters:
                    condition.notify_all()

    def read_for_others(self) -> None:
        """Keeps a thread reading, for coroutines that cannot wait themselves."""
        threading.Thread(
            target=self.wait_until, args=(lambda: False,), name="nereid-reader", daemon=True
        ).start()

    def send(self, kind: int, frame_id: int, parts: Sequence[Payload] = ()) -> None:
        length = 0
        for part in parts:
            length += len(part)
        if kind == EXECUTED and self._write_shared(parts, length):
            kind |= _SHARED_FLAG
            frame = [HEADER.pack(kind, frame_id, length)]
        else:
            frame = [HEADER.pack(kind, frame_id, length), *parts]
        with self._write_lock:
            self._write(frame, length)
            while self._deferred:
                deferred = self._deferred.popleft()
                self._write(deferred, sum(len(part) for part in deferred))

    def send_from_finalizer(self, kind: int, frame_id: int, payload: bytes) -> None:
        """`send` for `__del__`, which may run in the middle of a `send` of the same thread."""
        frame = [HEADER.pack(kind, frame_id, len(payload)), payload]
        if not self._write_lock.acquire(blocking=False):
            self._deferred.append(frame)
            return
        try:
            self._write(frame, len(payload))
        finally:
            self._write_lock.release()

    def _write_shared(self, parts: Sequence[Payload], length: int) -> bool:
        """False where the payload has to go through the socket."""
        shared_fd = self._shared_fd
        if shared_fd is None or not _SHARED_BYTES_MIN <= length <= _SHARED_BYTES_MAX:
            return False
        if len(parts) > _GATHER_PARTS_MAX:
            parts = [b"".join(parts)]
        try:
            return os.pwritev(shared_fd, parts, _ANSWER_POSITION) == length
        except OSError:
            # The file system is full.
            return False

    def _read_shared(self, length: int) -> memoryview:
        assert self._shared_fd is not None
        # Not zeroed first, unlike a bytearray.
        payload = memoryview(np.empty(length, np.uint8))
        have = 0
        while have < length:
            count = os.preadv(self._shared_fd, [payload[have:]], have)
            if count == 0:
                _server_has_gone()
            have += count
        return payload

    def _write(self, parts: Sequence[Payload], length: int) -> None:
        try:
            if length < _GATHER_BYTES or len(parts) > _GATHER_PARTS_MAX:
                self._socket.sendall(b"".join(parts))
            else:
                self._write_gathered(parts)
        except OSError:
            _server_has_gone()

    def _write_gathered(self, parts: Sequence[Payload]) -> None:
        rest: List[memoryview] = [memoryview(part).cast("B") for part in parts if len(part)]
        while rest:
            sent = self._socket.sendmsg(rest)
            while rest and sent >= len(rest[0]):
                sent -= len(rest.pop(0))
            if sent:
                rest[0] = rest[0][sent:]

    def _read_frame(self) -> Frame:
        while self._end - self._start < HEADER.size:
            self._fill()
        kind, frame_id, length = HEADER.unpack_from(self._scratch, self._start)
        start = self._start + HEADER.size
        if kind & _SHARED_FLAG:
            self._start = start
            return Frame(kind & ~_SHARED_FLAG, frame_id, self._read_shared(length))
        end = start + length
        if end <= self._end:
            self._start = end
            # A copy that the model may keep and write to.
            return Frame(kind, frame_id, self._scratch[start:end])
        if length <= _SCRATCH_BYTES // 2:
            while self._end - self._start < HEADER.size + length:
                self._fill()
            return self._read_frame()
        # Not zeroed first, unlike a bytearray.
        payload = memoryview(np.empty(length, np.uint8))
        have = self._end - start
        payload[:have] = self._scratch_view[start : self._end]
        self._start = self._end = 0
        try:
            while have < length:
                count = self._socket.recv_into(payload[have:])
                if count == 0:
                    _server_has_gone()
                have += count
        except OSError:
            _server_has_gone()
        return Frame(kind, frame_id, payload)

    def _fill(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._start:
            held = self._end - self._start
            self._scratch[:held] = self._scratch[self._start : self._end]
            self._start, self._end = 0, held
        try:
            count = self._socket.recv_into(self._scratch_view[self._end :])
        except OSError:
            count = 0
        if count == 0:
            _server_has_gone()
        self._end += count


def exit_with_server(sock: socket.socket) -> None:
    """Ends the process as soon as the server's end closes, whatever the model is doing."""
    poller = select.poll()
    # No events: only the hang-up is reported, requests do not wake this thread.
    poller.register(sock.fileno(), 0)

    def watch() -> None:
        while not poller.poll():
            pass
        _server_has_gone()

    threading.Thread(target=watch, name="nereid-lifeline", daemon=True).start()


def _server_has_gone() -> None:
    # Not sys.exit: other threads of the model must not keep the process.
    os._exit(1)
