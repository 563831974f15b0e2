"""One execution: a list of requests through the model's `execute`, results back."""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from typing import Any, Awaitable, List, Optional

from nereid_host import channel as ch
from nereid_host import wire
from nereid_host.errors import describe, encode_error
from nereid_host.request import InferenceRequest, decode_requests
from nereid_host.response import InferenceResponse, Result
from nereid_host.response_sender import ResponseSender, SingleResponse, Stream
from nereid_host.server_link import ServerLink

_STREAMED: Result = (wire.RESULT_STREAMED, b"", [], 0)
_RESCHEDULED: Result = (wire.RESULT_RESCHEDULED, b"", [], 0)
_UNSTARTED: Result = (wire.RESULT_UNSTARTED, b"", [], 0)

# After this long the results that there are must not wait for more, and what has not started is
# better off in the server's queue, from where another instance may take it.
_EACH_NS_MAX = 5_000_000


class Execution:
    """What a request knows of the execution that brought it."""

    __slots__ = ("_link", "_id", "_is_decoupled", "has_returned")

    def __init__(self, link: ServerLink, execution_id: int, is_decoupled: bool) -> None:
        self._link = link
        self._id = execution_id
        self._is_decoupled = is_decoupled
        self.has_returned = False

    def is_cancelled(self, index: int) -> bool:
        return self._link.is_cancelled(self._id, index)

    def new_sender(self, index: int, requested: frozenset) -> ResponseSender:
        outlet = Stream if self._is_decoupled else SingleResponse
        return ResponseSender(outlet(self._link, self._id, index), requested)


class Executor:
    """Runs the executions of one model."""

    def __init__(
        self,
        link: ServerLink,
        model: Any,
        output_names: List[str],
        is_decoupled: bool,
        instance_name: str,
    ) -> None:
        self._link = link
        self._instance_name = instance_name
        self._model = model
        self._reader = wire.HeadReader(output_names)
        self._is_decoupled = is_decoupled
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def run(self, frame: ch.Frame) -> None:
        link = self._link
        execution_id = frame.id
        link.current_execution_id = execution_id
        try:
            execution = Execution(link, execution_id, self._is_decoupled)
            form, requests = decode_requests(frame.payload, self._reader, execution)
            if self._is_decoupled:
                self._run_decoupled(requests)
                results = [_result_of_stream(request) for request in requests]
                parts = wire.encode_results(results)
            elif form == wire.FORM_EACH:
                parts = self._run_each(requests)
            else:
                parts = wire.encode_results(self._run_batch(requests))
            execution.has_returned = True
        except BaseException as error:  # noqa: B902 - sys.exit() of a model is its failure
            link.channel.send(ch.FAILED, execution_id, [self._failure(error)])
            return
        finally:
            link.current_execution_id = 0
        link.channel.send(ch.EXECUTED, execution_id, parts)

    def run_coroutine(self, awaitable: Awaitable[Any]) -> Any:
        """Runs it to its end on the loop of the model's own thread."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)
        return self._loop.run_until_complete(_await(awaitable))

    def _run_batch(self, requests: List[InferenceRequest]) -> List[Result]:
        responses = self._model.execute(requests)
        if type(responses) is not list:
            if inspect.isawaitable(responses):
                responses = self.run_coroutine(responses)
            if not isinstance(responses, list):
                raise _ContractError(
                    "execute must return a list of {} InferenceResponse object(s), one for each "
                    "request, but it returned {}".format(
                        len(requests), "None" if responses is None else type(responses).__name__
                    )
                )
        if len(responses) != len(requests):
            raise _ContractError(
                "Number of InferenceResponse objects do not match the number of InferenceRequest "
                "objects. InferenceRequest(s) size is:{}, and InferenceResponse(s) size is:{}\n"
                .format(len(requests), len(responses))
            )
        results: List[Result] = []
        for request, response in zip(requests, responses):
            if isinstance(response, InferenceResponse) and not request._is_rescheduled:
                results.append(response._result(request._head.requested_set))
            else:
                results.append(_result_of_sender(request, response))
        return results

    def _run_each(self, requests: List[InferenceRequest]) -> List[Any]:
        """An execution for each request, one after another: a failure is its own.

        Where they take long the last ones are handed back.
        """
        results: List[Result] = []
        durations_ns: List[int] = []
        now_ns = time.perf_counter_ns
        start_ns = now_ns()
        give_up_ns = start_ns + _EACH_NS_MAX
        for request in requests:
            if start_ns > give_up_ns:
                results.append(_UNSTARTED)
                durations_ns.append(0)
                continue
            try:
                results += self._run_batch([request])
            except BaseException as error:  # noqa: B902 - as in `run`
                results.append((wire.RESULT_ERROR, self._failure(error), [], 0))
            end_ns = now_ns()
            durations_ns.append(end_ns - start_ns)
            start_ns = end_ns
        return wire.encode_results(results, durations_ns)

    def _failure(self, error: BaseException) -> bytes:
        text = str(error) if isinstance(error, _ContractError) else describe(error)
        return encode_error(
            "Failed to process the request(s) for model '{}', message: {}".format(
                self._instance_name, text
            )
        )

    def _run_decoupled(self, requests: List[InferenceRequest]) -> None:
        for request in requests:
            # A request that is dropped unanswered takes its sender along, which ends it.
            request.get_response_sender()
        try:
            returned = self._model.execute(requests)
            if inspect.isawaitable(returned):
                # Its requests go on while the next ones begin: too late to reschedule them.
                for request in requests:
                    request._execution.has_returned = True
                asyncio.run_coroutine_threadsafe(
                    self._run_decoupled_coroutine(returned, requests), self._background_loop()
                )
            elif returned is not None:
                raise _ContractError(
                    "execute of a decoupled model must return None and answer through response "
                    "senders, but it returned {}".format(type(returned).__name__)
                )
        except BaseException as error:  # noqa: B902 - as in `run`
            self._fail_streams(requests, error)

    async def _run_decoupled_coroutine(
        self, awaitable: Awaitable[Any], requests: List[InferenceRequest]
    ) -> None:
        try:
            await awaitable
        except BaseException as error:  # noqa: B902 - as in `run`
            self._fail_streams(requests, error)

    def _fail_streams(self, requests: List[InferenceRequest], error: BaseException) -> None:
        """Ends the streams that the failed execution has left open."""
        failure = self._failure(error)
        for request in requests:
            request.get_response_sender()._fail(failure)

    def _background_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=self._loop.run_forever, name="nereid-coroutines", daemon=True
            ).start()
        return self._loop


class _ContractError(Exception):
    """What `execute` returned is not what it must return."""


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _result_of_sender(request: InferenceRequest, response: Any) -> Result:
    """The result where `execute` returned no response for a request."""
    if request._is_rescheduled and response is not None:
        raise _ContractError(
            "execute must return None for a rescheduled request, but its list holds {}".format(
                type(response).__name__
            )
        )
    if response is not None:
        raise _ContractError(
            "execute must return InferenceResponse objects, but its list holds {}".format(
                type(response).__name__
            )
        )
    if request._is_rescheduled:
        request._sender = None
        return _RESCHEDULED
    sender = request._sender
    outlet = sender._outlet if sender is not None else None
    # Nothing of ours may keep the sender: that it is dropped must be noticed.
    request._sender = sender = None
    result = outlet.wait() if isinstance(outlet, SingleResponse) else None
    if result is None:
        raise _ContractError(
            "execute returned None instead of an InferenceResponse, and no response was sent "
            "through the request's response sender"
        )
    return result


def _result_of_stream(request: InferenceRequest) -> Result:
    """The result of a request to a decoupled model, which has answered by its sender or will."""
    if request._is_rescheduled and request.get_response_sender()._hand_back():
        return _RESCHEDULED
    return _STREAMED
