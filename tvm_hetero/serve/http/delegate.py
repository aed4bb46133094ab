"""Between tornado's connection and a handler: what a request costs before and after its handler.

Tornado's own delegate starts a task before the body comes, and wakes it twice; here a task begins
when the body is there, and only for a method that awaits something. That, and a timer in the place
of a future with a limit, take 100 of 250 us from a small request (`python -m
benchmarks.serve_overhead`).

A request may be answered while its body is still coming: refused at the door. A small rest is read
and thrown away, for so long as `_LINGER` says, and the connection stays; a large one is left to
`http.lingering`, and the connection ends.
"""

from __future__ import annotations

import asyncio
from typing import Any

from tornado.http1connection import HTTP1Connection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.web import Application

from tvm_hetero.serve.http.handler import ApiHandler

_LINGER = 2.0  # seconds


class DoorDelegate(HTTPMessageDelegate):
    """One request: its headers, its body, its end."""

    def __init__(
        self,
        application: Application,
        request: HTTPServerRequest,
        handler: type[ApiHandler],
        given: dict[str, Any],
        path: dict[str, Any],
    ) -> None:
        self._make = lambda: handler(application, request, **given)
        self._path = path
        assert isinstance(request.connection, HTTP1Connection)
        self._connection = request.connection
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """The door."""
        self._handler = handler = self._make()
        handler.open(self._path)
        if "Content-Length" in headers or "Transfer-Encoding" in headers:
            seconds = handler.context.options.limits.body_seconds
            self._connection.set_body_timeout(None)  # type: ignore[arg-type]  # ours is cheaper
            self._timer = asyncio.get_running_loop().call_later(
                min(seconds, _LINGER) if handler.is_answered else seconds, self._connection.close
            )

    def data_received(self, chunk: bytes) -> None:
        """A part of the body; of what is answered already, no one wants it."""
        if not self._handler.is_answered:
            self._handler.receive(chunk)

    def finish(self) -> None:
        """The body is there: answer."""
        if self._timer is not None:
            self._timer.cancel()
        work = self._handler.respond()
        if work is not None:
            self._work = asyncio.ensure_future(work)

    def on_connection_close(self) -> None:
        """The client has hung up while it sent."""
        if self._timer is not None:
            self._timer.cancel()
        if hasattr(self, "_handler"):
            self._handler.abandon()


class DoorApplication(Application):
    """An application of `ApiHandler`s."""

    def get_handler_delegate(  # type: ignore[override]
        self,
        request: HTTPServerRequest,
        target_class: type[ApiHandler],
        target_kwargs: dict[str, Any] | None = None,
        path_args: list[bytes] | None = None,
        path_kwargs: dict[str, bytes] | None = None,
    ) -> DoorDelegate:
        """Called by tornado's router."""
        return DoorDelegate(self, request, target_class, target_kwargs or {}, path_kwargs or {})
