"""What every request passes, whatever its route: the one door of the server.

    prepare     while the body has not come yet: is the name by which it calls us ours (a page of a
                stranger that has been given our address by DNS cannot call us), the key, is the
                server draining, is the body too large, and what the route itself refuses
    body        copied where it is wanted, as it comes, and no more than was announced
    the end     an error becomes its protocol's body; one sentence, no paths, no traceback

A handler's coroutine is cancelled when its client hangs up, and so is what it waits for. From its
head to its end, or to the hanging up, a request is in the context's `active`: what a server that
is told to end waits for, and in the end gives up.

Handlers are driven by `http.delegate`, not by tornado's own: `open` when the headers are there,
`respond` when the body is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Coroutine, Mapping
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

from tornado.web import HTTPError, RequestHandler

from tvm_hetero.errors import HeteroError
from tvm_hetero.serve.core.refusal import DRAINING, REASON_HEADER, RefusedError
from tvm_hetero.serve.core.trace_context import TRACEPARENT
from tvm_hetero.serve.http.body_reader import BodyReader
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.door_checks import (
    Permission,
    check_host,
    check_key,
    check_size,
    may_skip_body,
)
from tvm_hetero.serve.http.errors import CLIENT_GONE, Fault, describe_fault
from tvm_hetero.serve.http.known_heads import KnownHead
from tvm_hetero.serve.models.served_model import ServedModel

_LOG = logging.getLogger("tvm_hetero.serve")
T = TypeVar("T")


class ApiHandler(BodyReader):
    """Base of all handlers.

    Attributes
    ----------
    permission : who may ask.
    arrived : when the headers were there, by `time.monotonic`.
    facts : what `read_head` made of the head.
    is_let_in : whether the door let it in when its head was there.
    skips_body : whether it was refused there, and the connection goes on behind its body.
    """

    permission: ClassVar[Permission] = Permission.KEY
    # Whether it is answered while the server drains, too.
    answers_while_draining: ClassVar[bool] = True
    # Whether small requests may be answered beside tornado's reader (`http.fast_lane`).
    has_lane: ClassVar[bool] = False
    methods: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """A handler has the methods that it does not merely inherit from tornado."""
        super().__init_subclass__()
        cls.methods = tuple(
            name
            for name in RequestHandler.SUPPORTED_METHODS
            if getattr(cls, name.lower()) is not getattr(RequestHandler, name.lower())
        )

    def initialize(self, context: ServeContext) -> None:
        """Called by tornado."""
        self.context = context
        self.arrived = time.monotonic()
        self.body = bytearray()
        self.facts: Any = None
        self.is_let_in = False
        self.skips_body = False
        self._work: asyncio.Task[Any] | None = None
        self._is_gone = False
        self._given_up: BaseException | None = None
        self._refused: BaseException | None = None
        self._models: list[ServedModel] = []
        context.active.add(self)
        if context.draining:
            self.set_header("Connection", "close")

    def open(self, path: Mapping[str, Any]) -> None:
        """The headers are there: refuse, or let the body come."""
        TRACEPARENT.set(self.request.headers.get("Traceparent"))
        self._transforms = []
        try:
            self.path_args = []
            self.path_kwargs = {name: self.decode_argument(each) for name, each in path.items()}
            self._cross_origin_protection()
            self.prepare()
        except Exception as error:
            self._handle_request_exception(error)

    def open_known(self, known: KnownHead) -> None:
        """The head is one that was let in before, and the body is there, too.

        What followed from the head alone (its host and origin, its method, its length, what
        `read_head` says) follows again; the key is compared each time.
        """
        TRACEPARENT.set(self.request.headers.get("Traceparent"))
        self._transforms = []
        self.path_args, self.path_kwargs = [], known.path
        self.facts, self._is_coming = known.facts, False
        try:
            check_key(self.request, self.context.options, self.permission)
            self._check_draining()
            self.check_door()
        except Exception as error:
            self._handle_request_exception(error)

    def respond(self) -> Coroutine[Any, Any, None] | None:
        """The body is there: answer. What is left to be awaited, if anything is."""
        self._is_coming = False
        if self._finished:
            return None
        try:
            if self._refused is not None:
                raise self._refused
            method = getattr(self, str(self.request.method).lower())
            work: Coroutine[Any, Any, None] | None = method(*self.path_args, **self.path_kwargs)
        except Exception as error:
            self._handle_request_exception(error)
            return None
        if work is not None:
            return self._complete(work)
        if not self._finished:
            self.finish()
        return None

    def abandon(self) -> None:
        """The client has hung up while its body came."""
        self._is_gone = True
        self._finish_for_no_one()

    def prepare(self) -> None:
        """Refuse before the body comes.

        Where there is none, or a small one, or it is here, it is let in first. Of a larger one the
        refusal does not wait; what comes of it is thrown away (`DoorStream.skip`), if that is less
        than a new connection would cost.
        """
        try:
            self._pass_door()
            self.is_let_in = True
        except (HeteroError, HTTPError) as error:
            if not self._has_small_body():
                self.skips_body = may_skip_body(self.request, self.context)
                raise
            self._refused = error

    def _pass_door(self) -> None:
        check_host(self.request, self.context)
        check_key(self.request, self.context.options, self.permission)
        self._check_method()
        self._check_draining()
        check_size(self.request, self.context.options.limits.body)
        self.facts = self.read_head()
        self.check_door()

    def _check_draining(self) -> None:
        if self.context.draining and not self.answers_while_draining:
            raise RefusedError("the server is shutting down", reason=DRAINING, retry_after=1.0)

    def _check_method(self) -> None:
        """A wrong method is told so before anything else of the request is looked at."""
        if self.methods and self.request.method not in self.methods:
            raise HTTPError(HTTPStatus.METHOD_NOT_ALLOWED)

    def find_model(self, name: str, version: str | None = None) -> ServedModel:
        """As `Repository.find`; the model is not closed before this request is answered."""
        model = self.context.repository.find(name, version)
        model.users.add(self)
        self._models.append(model)
        return model

    def read_head(self) -> Any:
        """What the headers say, whenever they come: kept for requests with the same head."""
        return None

    def check_door(self) -> None:
        """What a route refuses by its path and headers alone."""

    def on_connection_close(self) -> None:
        """The client has hung up: end what is done for it."""
        self._is_gone = True
        self.context.active.discard(self)
        if self._work is not None:
            self._work.cancel()

    def give_up(self, error: BaseException) -> None:
        """End what is done for the client, which is told why."""
        self._given_up = error
        if self._work is not None:
            self._work.cancel()
        elif not self._finished:
            self._handle_request_exception(error)

    def on_finish(self) -> None:
        """Called by tornado when the answer is written."""
        self.context.active.discard(self)
        for model in self._models:
            model.users.discard(self)

    async def attend(self, work: Awaitable[T]) -> T:
        """Await something that is cancelled when the client hangs up.

        It runs in the task of the handler itself: another one costs time at each request.
        """
        task = asyncio.current_task()
        assert task is not None, "handlers run in tasks"
        self._work = task
        if self._is_gone:
            task.cancel()
        try:
            return await work
        except asyncio.CancelledError:
            if self._is_gone or self._given_up is not None:
                task.uncancel()  # what ends is the work, not the task: it may have to say why
            raise
        finally:
            self._work = None

    def fault_body(self, fault: Fault) -> Any:
        """What a protocol says of an error."""
        return {"error": fault.text}

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for an exception."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        fault = Fault(status_code, "error") if error is None else describe_fault(error)
        if fault.retry_after is not None:
            self.set_header("Retry-After", str(fault.retry_after))
        if fault.reason:
            self.set_header(REASON_HEADER, fault.reason)
        if fault.status == HTTPStatus.METHOD_NOT_ALLOWED:
            self.set_header("Allow", ", ".join(self.methods))
        if self.context.draining or (self._is_coming and not self.skips_body):
            self.set_header("Connection", "close")
        self.answer(self.fault_body(fault), fault.status)

    def _handle_request_exception(self, e: BaseException) -> None:
        """Our own errors are no bugs, and a client that is gone is told nothing."""
        if self._given_up is not None and isinstance(e, asyncio.CancelledError):
            e = self._given_up
        if self._is_gone or isinstance(e, asyncio.CancelledError):
            self._finish_for_no_one()
            return
        if self._finished:
            return
        fault = describe_fault(e)
        if fault.status == 500:
            _LOG.error("%s %s failed", self.request.method, self.request.path, exc_info=e)
        self.send_error(fault.status, exc_info=(type(e), e, e.__traceback__))

    def _finish_for_no_one(self) -> None:
        if not self._finished:
            self._status_code = CLIENT_GONE
            self._finished = True
            self.on_finish()

    async def _complete(self, work: Awaitable[None]) -> None:
        try:
            await work
            if not self._finished:
                self.finish()
        except (Exception, asyncio.CancelledError) as error:
            self._handle_request_exception(error)
