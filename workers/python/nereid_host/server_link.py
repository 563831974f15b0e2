"""What this process may ask of its server: logs, metrics, control, the state of requests."""

from __future__ import annotations

import json
import struct
from typing import Any, Dict, Optional, Sequence, Tuple

from nereid_host import channel as ch
from nereid_host.errors import TritonError, TritonModelException, decode_error

_CONTROL_HEAD = struct.Struct("<I")

#: Levels in frames, by position.
LOG_LEVELS = ("error", "warning", "info", "verbose")


class ServerLink:
    """The one connection of this process, shared by all its threads."""

    def __init__(self, channel: ch.Channel) -> None:
        self.channel = channel
        #: The execution under way in the model's own thread; 0 when there is none.
        self.current_execution_id = 0
        #: Receivers of responses to calls of other models, by call.
        self.calls: Dict[int, Any] = {}
        #: Open streams, by execution and request index.
        self.streams: Dict[Tuple[int, int], Any] = {}
        self._answers: Dict[int, Optional[ch.Payload]] = {}
        self._reads_for_coroutines = False
        channel.handle(ch.INFER_RESPONSE, self._on_infer_response)
        channel.handle(ch.INFER_END, self._on_infer_end)
        channel.handle(ch.CONTROL_RESULT, self._on_answer)
        channel.handle(ch.CANCEL_STATE, self._on_answer)
        channel.handle(ch.STREAM_CREDIT, self._on_stream_credit)

    def log(self, level: str, message: str) -> None:
        self.channel.send(
            ch.LOG, LOG_LEVELS.index(level), [message.encode("utf-8", "replace")]
        )

    def update_metric(self, update: Dict[str, Any]) -> None:
        self.channel.send(ch.METRIC, 0, [json.dumps(update).encode("utf-8")])

    def control(
        self,
        action: str,
        model_name: str,
        model_version: str = "",
        config: Optional[str] = None,
        files: Optional[Dict[str, bytes]] = None,
    ) -> bool:
        """Loads, unloads or looks at a model; raises what the server answers."""
        names = list(files or {})
        contents = [bytes((files or {})[name]) for name in names]
        head = json.dumps(
            {
                "action": action,
                "modelName": model_name,
                "modelVersion": model_version,
                "config": config,
                "files": [[name, len(data)] for name, data in zip(names, contents)],
            }
        ).encode("utf-8")
        answer = self._ask(ch.CONTROL, [_CONTROL_HEAD.pack(len(head)), head, *contents])
        # First byte: 0 no, 1 yes, 2 an error that follows.
        if answer[0] == 2:
            error = decode_error(memoryview(answer)[1:])
            raise TritonModelException(error.message())
        return answer[0] == 1

    def is_cancelled(self, execution_id: int, request_index: int) -> bool:
        answer = self._ask(
            ch.CANCEL_QUERY, [struct.pack("<II", execution_id, request_index)]
        )
        return answer[0] == 1

    def read_for_coroutines(self) -> None:
        """Makes sure that frames are read while the model's thread runs an event loop."""
        if not self._reads_for_coroutines:
            self._reads_for_coroutines = True
            self.channel.read_for_others()

    def _ask(self, kind: int, parts: Sequence[ch.Payload]) -> ch.Payload:
        question = self.channel.new_id()
        answers = self._answers
        answers[question] = None
        self.channel.send(kind, question, parts)
        self.channel.wait_until(lambda: answers[question] is not None)
        answer = answers.pop(question)
        assert answer is not None
        return answer

    def _on_answer(self, frame: ch.Frame) -> None:
        if frame.id in self._answers:
            self._answers[frame.id] = frame.payload

    def _on_infer_response(self, frame: ch.Frame) -> None:
        call = self.calls.get(frame.id)
        if call is not None:
            call.on_response(frame.payload)

    def _on_infer_end(self, frame: ch.Frame) -> None:
        call = self.calls.pop(frame.id, None)
        if call is not None:
            error: Optional[TritonError] = None
            if len(frame.payload):
                error = decode_error(memoryview(frame.payload))
            call.on_end(error)

    def _on_stream_credit(self, frame: ch.Frame) -> None:
        index, count = struct.unpack("<II", frame.payload)
        stream = self.streams.get((frame.id, index))
        if stream is not None:
            stream.on_credit(count)


_link: Optional[ServerLink] = None


def set_link(link: ServerLink) -> None:
    global _link
    _link = link


def get_link() -> ServerLink:
    if _link is None:
        raise TritonModelException(
            "triton_python_backend_utils works only inside a model of a running server"
        )
    return _link
