"""What every request passes, whatever its route: the one door of the server.

    prepare     while the body has not come yet: is the name by which it calls us ours (a page of a
                stranger that has been given our address by DNS cannot call us), the key, is the
                server draining, is the body too large, and what the route itself refuses
    body        copied where it is wanted, as it comes, and no more than was announced
    the end     an error becomes its protocol's body; one sentence, no paths, no traceback

A handler's coroutine is cancelled when its client hangs up, and so is what it waits for. From its
head to its end, or to the hanging up, a request is in the context's `active`: what a server that
is told to end waits for, and in the end gives up.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Awaitable
from enum import Enum
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar

import orjson
from tornado.web import HTTPError, RequestHandler, stream_request_body

from tvm_hetero.errors import HeteroError
from tvm_hetero.serve.core.refusal import DRAINING, TOO_LARGE, AccessError, RefusedError
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.errors import CLIENT_GONE, Fault, describe_fault

_LOG = logging.getLogger("tvm_hetero.serve")
_JSON = "application/json"
_SMALL_BODY = 1 << 14
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
T = TypeVar("T")


class Permission(Enum):
    """Who may ask: anyone, who has the key, who has the admin's key (and only with --admin)."""

    OPEN = "open"
    KEY = "key"
    ADMIN = "admin"


@stream_request_body
class ApiHandler(RequestHandler):
    """Base of all handlers.

    Attributes
    ----------
    permission : who may ask.
    body : what came, when the method is called.
    arrived : when the headers were there, by `time.monotonic`.
    """

    permission: ClassVar[Permission] = Permission.KEY
    # Whether it is answered while the server drains, too.
    answers_while_draining: ClassVar[bool] = True

    def initialize(self, context: ServeContext) -> None:
        """Called by tornado."""
        self.context = context
        self.arrived = time.monotonic()
        self.body = bytearray()
        self._work: asyncio.Future[Any] | None = None
        self._is_gone = False
        self._given_up: BaseException | None = None
        self._refused: BaseException | None = None
        context.active.add(self)
        if context.draining:
            self.set_header("Connection", "close")

    def set_default_headers(self) -> None:
        """No guessing of types, no word on versions."""
        self.clear_header("Server")
        self.set_header("X-Content-Type-Options", "nosniff")

    def prepare(self) -> None:
        """Refuse before the body comes.

        Where there is none, or a small one, it is let in first: a refusal before the end of a
        request costs the client its connection.
        """
        try:
            self._pass_door()
        except (HeteroError, HTTPError) as error:
            if not self._has_small_body():
                raise
            self._refused = error
            setattr(self, str(self.request.method).lower(), self._refuse)

    def _pass_door(self) -> None:
        self._check_host()
        self._check_key()
        if self.context.draining and not self.answers_while_draining:
            raise RefusedError("the server is shutting down", reason=DRAINING, retry_after=1.0)
        self._check_size()
        self.check_door()

    def check_door(self) -> None:
        """What a route refuses by its path and headers alone."""

    def data_received(self, chunk: bytes) -> None:
        """Keep what came of the body; one in chunks shows its size only now."""
        if self._finished or self._refused is not None:
            return
        self.body += chunk
        if len(self.body) > self.context.options.limits.body:
            self.body.clear()
            self._handle_request_exception(self._too_large("more"))

    def on_connection_close(self) -> None:
        """The client has hung up: end what is done for it."""
        self._is_gone = True
        self.context.active.discard(self)
        if self._work is not None:
            self._work.cancel()
        super().on_connection_close()

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

    async def attend(self, work: Awaitable[T]) -> T:
        """Await something that is cancelled when the client hangs up."""
        future: asyncio.Future[T] = asyncio.ensure_future(work)
        self._work = future
        if self._is_gone:
            future.cancel()
        try:
            return await future
        finally:
            self._work = None

    def answer(self, value: Any, status: int = 200) -> None:
        """Finish with a JSON document."""
        self.set_status(status)
        self.set_header("Content-Type", _JSON)
        self.finish(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY))

    def fault_body(self, fault: Fault) -> Any:
        """What a protocol says of an error."""
        return {"error": fault.text}

    def compute_etag(self) -> None:
        """None: answers are not kept by clients."""

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Called by tornado for an exception."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        fault = Fault(status_code, "error") if error is None else describe_fault(error)
        if fault.retry_after is not None:
            self.set_header("Retry-After", str(fault.retry_after))
        if self.context.draining or not self._has_whole_body():
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

    def _refuse(self, **_: object) -> None:
        assert self._refused is not None
        raise self._refused

    def _has_small_body(self) -> bool:
        headers = self.request.headers
        if "Transfer-Encoding" in headers or "Expect" in headers:
            return False
        length = headers.get("Content-Length", "0")
        return length.isdecimal() and len(length) < 9 and int(length) <= _SMALL_BODY

    def _has_whole_body(self) -> bool:
        return self.request._body_future.done()

    def _check_host(self) -> None:
        options = self.context.options
        if not options.is_loopback:
            return
        name = self.request.host_name
        if name.lower() not in _LOCAL and name not in (options.host, *options.hosts):
            raise AccessError(
                "this server is for this machine alone and is not known by that name; allow it "
                "with --allow-host", HTTPStatus.MISDIRECTED_REQUEST,
            )  # fmt: skip

    def _check_key(self) -> None:
        options = self.context.options
        if self.permission is Permission.ADMIN and not options.admin:
            raise AccessError(
                "administration is off; start the server with --admin", HTTPStatus.FORBIDDEN
            )
        wanted = options.admin_key if self.permission is Permission.ADMIN else options.key
        if self.permission is Permission.OPEN or wanted is None:
            return
        given = self.request.headers.get("Authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
            raise AccessError("the key is missing or wrong", HTTPStatus.UNAUTHORIZED)

    def _check_size(self) -> None:
        limit = self.context.options.limits.body
        length = self.request.headers.get("Content-Length", "0")
        if length.isdecimal() and int(length) > limit:
            raise self._too_large(f"{length} bytes, more")

    def _too_large(self, what: str) -> RefusedError:
        limit = self.context.options.limits.body
        return RefusedError(f"the body has {what} than the {limit} bytes that are allowed",
                            reason=TOO_LARGE, status=413)  # fmt: skip
