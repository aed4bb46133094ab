"""How a handler writes its answer: what tornado does for all cases, done once for the usual one.

Most answers are small, known as a whole, and go to a client whose connection stays open: their head
and body are one piece of bytes, written at once. What is large is not copied.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from typing import Any

import orjson
from tornado.http1connection import HTTP1Connection
from tornado.httputil import HTTPHeaders, format_timestamp
from tornado.web import RequestHandler

_JSON = "application/json"
_LARGE = 64 << 10  # bytes that are copied in a few microseconds


class AnswerWriter(RequestHandler):
    """The writing half of `ApiHandler`."""

    _is_coming = True  # whether the request's body is not all there yet

    def clear(self) -> None:
        """Begin an answer: no guessing of types, no word on versions."""
        self._headers = HTTPHeaders()
        self._headers["Date"] = _date(int(time.time()))
        self._headers["X-Content-Type-Options"] = "nosniff"
        self._write_buffer = []
        self._status_code, self._reason = 200, "OK"

    def answer(self, value: Any, status: int = 200) -> None:
        """Finish with a JSON document."""
        self.set_status(status)
        self.send([orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)], _JSON)

    def send(self, parts: Sequence[bytes | memoryview], content_type: str) -> None:
        """Finish with these bytes; large ones are not copied."""
        size = sum(map(len, parts))
        self.set_header("Content-Type", content_type)
        self.set_header("Content-Length", str(size))
        if size > _LARGE:
            self.flush()
            for part in parts:
                self._connection.write(part)  # type: ignore[arg-type]  # tornado takes views
            self.finish()
        elif self._is_coming or not self._keeps_alive():
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
        connection.finish()
        self._headers_written = self._finished = True
        self.on_finish()


@functools.lru_cache(maxsize=2)
def _date(seconds: int) -> str:
    return format_timestamp(seconds)
