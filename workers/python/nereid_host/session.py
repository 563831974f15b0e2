"""The life of one model in this process: load, complete, initialize, execute, finalize."""

from __future__ import annotations

import inspect
import json
from typing import Any, Callable, Dict, Optional

from nereid_host import channel as ch
from nereid_host.errors import TritonModelException, describe, encode_error
from nereid_host.execution import Executor
from nereid_host.model_config import ModelConfig
from nereid_host.model_source import ModelSource
from nereid_host.server_link import ServerLink


class Session:
    """Answers the server's frames, one after another, in the main thread."""

    def __init__(self, link: ServerLink) -> None:
        self._link = link
        self._class: Any = None
        self._source: Optional[ModelSource] = None
        self._model: Any = None
        self._executor: Optional[Executor] = None

    def run(self) -> None:
        channel = self._link.channel
        steps: Dict[int, Callable[[ch.Frame], Any]] = {
            ch.LOAD: self._load,
            ch.AUTO_COMPLETE: self._auto_complete,
            ch.INITIALIZE: self._initialize,
            ch.IS_READY: self._is_ready,
            ch.FINALIZE: self._finalize,
        }
        while True:
            frame = channel.receive()
            if frame.kind == ch.EXECUTE:
                assert self._executor is not None
                self._executor.run(frame)
                # The request's memory is not kept until the next one comes.
                del frame
                continue
            try:
                answer = steps[frame.kind](frame)
            except BaseException as error:  # noqa: B902 - sys.exit() of a model is its failure
                channel.send(ch.FAILED, frame.id, [encode_error(describe(error))])
            else:
                channel.send(ch.DONE, frame.id, [json.dumps(answer).encode("utf-8")])
            if frame.kind == ch.FINALIZE:
                return

    def _load(self, frame: ch.Frame) -> None:
        self._source = ModelSource(json.loads(bytes(frame.payload)))
        self._class = self._source.model_class()

    def _auto_complete(self, frame: ch.Frame) -> Optional[Dict[str, Any]]:
        complete = getattr(self._class, "auto_complete_config", None)
        if complete is None:
            return None
        completed = complete(ModelConfig(json.loads(bytes(frame.payload))))
        if not isinstance(completed, ModelConfig):
            raise TritonModelException(
                "auto_complete_config must return the ModelConfig that it got, but it returned "
                "{}".format(type(completed).__name__)
            )
        return completed.as_dict()

    def _initialize(self, frame: ch.Frame) -> Dict[str, Any]:
        description = json.loads(bytes(frame.payload))
        args: Dict[str, str] = description["args"]
        config: Dict[str, Any] = json.loads(args["model_config"])
        model = self._class()
        if not callable(getattr(model, "execute", None)):
            raise TritonModelException("class TritonPythonModel has no execute method")
        policy = config.get("model_transaction_policy") or {}
        executor = Executor(
            self._link,
            model,
            [output["name"] for output in config["output"]],
            bool(policy.get("decoupled")),
            args["model_instance_name"],
        )
        if hasattr(model, "bind_source"):
            model.bind_source(self._source, description["defaultIntraOpThreads"])
        if hasattr(model, "initialize"):
            returned = model.initialize(args)
            if inspect.isawaitable(returned):
                executor.run_coroutine(returned)
        self._model = model
        self._executor = executor
        return {"hasReadiness": callable(getattr(model, "is_ready", None))}

    def _is_ready(self, _frame: ch.Frame) -> bool:
        answer = self._model.is_ready()
        if inspect.isawaitable(answer):
            assert self._executor is not None
            answer = self._executor.run_coroutine(answer)
        if not isinstance(answer, bool):
            raise TritonModelException(
                "is_ready must return a bool, but it returned {}".format(type(answer).__name__)
            )
        return answer

    def _finalize(self, _frame: ch.Frame) -> None:
        if hasattr(self._model, "finalize"):
            returned = self._model.finalize()
            if inspect.isawaitable(returned):
                assert self._executor is not None
                self._executor.run_coroutine(returned)
