"""How a handler writes its answer: what tornado does for all cases, done once for the usual one.

Most answers are small, known as a whole, and go to a client whose connection stays open: their head
and body are one piece of bytes, written at once. What is large is not copied.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPHeaders, HTTPServerRequest, format_timestamp
from tornado.web import Application, RequestHandler

from tvm_hetero.serve.http.fast_lane import LaneConnection

_JSON = "application/json"
_LARGE = 64 << 10  # bytes that are copied in a few microseconds
_NO_SNIFFING = ("X-Content-Type-Options", "nosniff")


class AnswerWriter(RequestHandler):
    """The writing half of `ApiHandler`."""

    _is_coming = True  # whether the request's body is not all there yet
    skips_body = False

    def __init__(self, application: Application, request: HTTPServerRequest, **given: Any) -> None:
        # As tornado's, without what templates of pages want.
        self.application, self.request = application, request
        self._headers_written = self._finished = False
        self._auto_finish = True
        self._prepared_future = None
        self.clear()
        self._connection.set_close_callback(self.on_connection_close)
        self.initialize(**given)

    def clear(self) -> None:
        """Begin an answer: no guessing of types, no word on versions."""
        self._made: HTTPHeaders | None = None
        self._write_buffer = []
        self._status_code, self._reason = 200, "OK"

    @property
    def _headers(self) -> HTTPHeaders:  # type: ignore[override]
        """Tornado's name for the answer's headers; most answers have no more than the usual."""
        if self._made is None:
            self._made = HTTPHeaders()
            self._made["Date"] = _date(int(time.time()))
            name, value = _NO_SNIFFING
            self._made[name] = value
        return self._made

    def answer(self, value: Any, status: int = 200) -> None:
        """Finish with a JSON document."""
        self.set_status(status)
        self.send([orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)], _JSON)

    def send(
        self,
        parts: Sequence[bytes | memoryview],
        content_type: str,
        further: Mapping[str, str] | None = None,
    ) -> None:
        """Finish with these bytes, and with further headers; large ones are not copied."""
        size = sum(map(len, parts))
        told = {**(further or {}), "Content-Type": content_type, "Content-Length": str(size)}
        connection = self.request.connection
        is_usual = self._made is None and self._status_code == 200 and size <= _LARGE
        if is_usual and isinstance(connection, LaneConnection):
            head = "".join([f"{name}: {value}\r\n" for name, value in told.items()])
            begin = _usual_head(int(time.time()))
            connection.send_whole(b"".join([begin, head.encode("latin1"), b"\r\n", *parts]))
            self._headers_written = self._finished = True
            self.on_finish()
            return
        for name, value in told.items():
            self.set_header(name, value)
        if size > _LARGE:
            self.flush()
            for part in parts:
                self._connection.write(part)  # type: ignore[arg-type]  # tornado takes views
            self.finish()
        elif (self._is_coming and not self.skips_body) or not self._keeps_alive():
            self.finish(b"".join(parts))
        else:
            self._send_at_once(parts)

    def compute_etag(self) -> None:
        """None: answers are not kept by clients."""

    @property
    def _connection(self) -> HTTP1Connection:
        connection = self.request.connection
        assert isinstance(connection, HTTP1Connection), "there is no other"
        return connection

    def _keeps_alive(self) -> bool:
        request = self.request
        is_usual = request.headers.get("Connection", "keep-alive").lower() == "keep-alive"
        return is_usual and request.version == "HTTP/1.1" and request.method != "HEAD"

    def _send_at_once(self, parts: Sequence[bytes | memoryview]) -> None:
        """What `finish` comes to where the connection stays open, in less time."""
        lines = [f"HTTP/1.1 {self._status_code} {self._reason}\r\n"]
        lines += [f"{name}: {value}\r\n" for name, value in self._headers.get_all()]
        connection = self._connection
        connection.set_close_callback(None)
        connection.write(b"".join([*(line.encode("latin1") for line in lines), b"\r\n", *parts]))
        connection._read_finished = True  # or would be closed, for what is skipped
        connection.finish()
        self._headers_written = self._finished = True
        self.on_finish()


@functools.lru_cache(maxsize=2)
def _usual_head(seconds: int) -> bytes:
    name, value = _NO_SNIFFING
    return f"HTTP/1.1 200 OK\r\nDate: {_date(seconds)}\r\n{name}: {value}\r\n".encode("latin1")


@functools.lru_cache(maxsize=2)
def _date(seconds: int) -> str:
    return format_timestamp(seconds)
