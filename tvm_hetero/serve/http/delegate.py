"""Between tornado's connection and a handler: what a request costs before and after its handler.

Tornado's own router and delegate make a task before the body comes and wake it twice, and a future
with a limit for headers and body each. Here a task begins when the body is there, and only for a
method that awaits something, and a limit is a number that the server looks at once a second
(`DoorStream.check_pace`); that takes much from what a small request costs
(`python -m benchmarks.serve_overhead`).

A request that is answered while its body is still coming, refused at the door, ends its connection
(`http.lingering`) where the body is large or of no known length; else its body is thrown away.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote_to_bytes

from tornado.http1connection import HTTP1Connection, HTTP1ServerConnection
from tornado.httputil import (
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerRequest,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.web import Application

from tvm_hetero.serve.http.body_reader import LARGE_BODY
from tvm_hetero.serve.http.context import ServeContext
from tvm_hetero.serve.http.door_checks import told_length
from tvm_hetero.serve.http.door_stream import DoorStream
from tvm_hetero.serve.http.fast_lane import FastLane
from tvm_hetero.serve.http.handler import ApiHandler
from tvm_hetero.serve.http.known_heads import KnownHead, KnownHeads

# A pattern of paths, and who answers.
Route = tuple[str, type[ApiHandler]]


class DoorApplication(Application):
    """An application of `ApiHandler`s; who answers where no route fits is `nowhere`.

    Attributes
    ----------
    heads : that came before.
    """

    def __init__(
        self, context: ServeContext, routes: Iterable[Route], nowhere: type[ApiHandler]
    ) -> None:
        super().__init__(log_function=_log_nothing, cross_origin_protection=True)
        self.context = context
        self.heads = KnownHeads()
        self._routes = [(re.compile(pattern).fullmatch, handler) for pattern, handler in routes]
        self._nowhere = nowhere

    def route(self, path: str) -> tuple[type[ApiHandler], dict[str, bytes | None]]:
        """Who answers under a path, and the path's named parts, unquoted."""
        for matches, handler in self._routes:
            found = matches(path)
            if found:
                return handler, {
                    name: None if part is None else unquote_to_bytes(part)
                    for name, part in found.groupdict().items()
                }
        return self._nowhere, {}

    def start_request(self, server_conn: object, request_conn: Any) -> DoorDelegate:
        """Called by tornado when it waits for the next request of a connection."""
        if isinstance(server_conn, HTTP1ServerConnection):
            server_conn.params.header_timeout = None  # `DoorDelegate` has its own
        stream = request_conn.stream
        if isinstance(stream, DoorStream) and stream.lane is None:
            stream.lane = FastLane(self, server_conn, request_conn, stream)
        return DoorDelegate(self, server_conn, request_conn)


class DoorDelegate(HTTPMessageDelegate):
    """One request: its headers, its body, its end."""

    def __init__(
        self, application: DoorApplication, server: object, connection: HTTP1Connection
    ) -> None:
        self._application, self._server, self._connection = application, server, connection
        self._handler: ApiHandler | None = None
        self._work: asyncio.Task[None] | None = None  # the loop itself holds it weakly
        self._limits = application.context.options.limits
        self._stream = connection.stream
        self._close_within(self._limits.idle)

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """The door."""
        self._close_within(math.inf)
        assert isinstance(start_line, RequestStartLine)
        request = HTTPServerRequest(
            connection=self._connection, server_connection=self._server,
            start_line=start_line, headers=headers,
        )  # fmt: skip
        kind, path = self._application.route(request.path)
        handler = kind(self._application, request, context=self._application.context)
        self._handler = handler
        handler.open(path)
        if handler.has_lane and handler.is_let_in:
            self._remember(request, handler)
        length = told_length(headers)
        if handler.skips_body:
            self._skip_body(length)
        elif handler.is_let_in and length > LARGE_BODY and "Transfer-Encoding" not in headers:
            stream = self._connection.stream
            self._connection._read_body = lambda *_: handler.read_whole(stream, length)  # type: ignore[method-assign]
        if "Content-Length" in headers or "Transfer-Encoding" in headers:
            self._connection.set_body_timeout(None)  # type: ignore[arg-type]  # ours is cheaper
            self._close_within(self._limits.body_seconds)

    def data_received(self, chunk: bytes) -> None:
        """A part of the body."""
        assert self._handler is not None, "headers come first"
        self._handler.receive(chunk)

    def finish(self) -> None:
        """The body is there: answer."""
        assert self._handler is not None, "headers come first"
        self._close_within(math.inf)
        work = self._handler.respond()
        if work is not None:
            self._work = asyncio.ensure_future(work)

    def on_connection_close(self) -> None:
        """The client has hung up while it sent."""
        if self._handler is not None:
            self._handler.abandon()

    def _remember(self, request: HTTPServerRequest, handler: ApiHandler) -> None:
        """Know the head of a request that may come again."""
        if isinstance(self._stream, DoorStream):
            head, heads = self._stream.head(), self._application.heads
            if heads.is_wanted(head, request):
                known = KnownHead(request, type(handler), handler.path_kwargs, handler.facts)
                heads.keep(head, known)

    def _skip_body(self, length: int) -> None:
        """Let tornado wait for the end of a body that is refused, and read nothing of it."""
        stream = self._stream
        if isinstance(stream, DoorStream):
            self._connection._read_body = lambda *_: stream.skip(length)  # type: ignore[method-assign, assignment]

    def _close_within(self, seconds: float) -> None:
        """How long the client may take for what it has to send next."""
        if isinstance(self._stream, DoorStream):
            self._stream.allow(seconds)


def _log_nothing(_: object) -> None:
    """Requests are counted, not logged: a line each would be a way to fill the disk."""
