"""Heads of requests that came before, byte for byte, and what was read from them.

A client that keeps its connection sends the same head again and again: the same path, the same
length, the same key. What follows from these bytes and from the server's options alone is found
once: tornado's own parser has passed them, our door has let them in, and their route is known. What
changes with time (the models, the queue, whether the server drains) is asked at every request, and
so is the key.
"""

from __future__ import annotations

from typing import Any

from tornado.httputil import HTTPHeaders, HTTPServerRequest, RequestStartLine

_MOST_BYTES = 2048  # of a head that is kept
_MOST, _MOST_ONCE = 256, 1024
_LINE_ENDS = b"\r\n\r\n"


class KnownHead:
    """What was read from a head.

    Attributes
    ----------
    handler : the class of who answers.
    path : the path's named parts, as the handler's method takes them.
    facts : what `ApiHandler.read_head` made of it.
    length : bytes of the body.
    """

    def __init__(
        self, request: HTTPServerRequest, handler: type[Any], path: dict[str, str], facts: Any
    ) -> None:
        self.handler, self.path, self.facts = handler, path, facts
        self.length = int(request.headers.get("Content-Length", "0"))
        self.start_line = RequestStartLine(
            str(request.method), str(request.uri), request.version
        )  # fmt: skip
        self.headers: HTTPHeaders = request.headers
        self._read = {**vars(request), "connection": None, "server_connection": None}
        del self._read["_start_time"]  # by the clock that jumps; nobody here asks for it

    def request(self, connection: Any, server: object) -> HTTPServerRequest:
        """A further request with this head, on a connection."""
        request = HTTPServerRequest.__new__(HTTPServerRequest)
        own = vars(request)
        own.update(self._read)
        own["connection"], own["server_connection"] = connection, server
        own["remote_ip"] = getattr(connection.context, "remote_ip", None)
        return request


class KnownHeads:
    """Heads that came twice, by their bytes; the one that was kept first goes first."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownHead] = {}
        # Hashes of those that came once: heads that are never the same shall not drive others out.
        self._once: dict[int, None] = {}

    def find(self, head: bytes) -> KnownHead | None:
        """What is known of a head."""
        return self._known.get(head)

    def is_wanted(self, head: bytes, request: HTTPServerRequest) -> bool:
        """Whether a head is one that should be kept: it has come before, and says nothing that
        would make its request another than the usual one.

        A client of another version than HTTP/1.1 is told whether its connection stays, or waits for
        its end.
        """
        headers = request.headers
        if request.version != "HTTP/1.1":
            return False
        if len(head) > _MOST_BYTES or not head.endswith(_LINE_ENDS):
            return False
        length = headers.get("Content-Length", "")
        is_usual = headers.get("Connection", "keep-alive").lower() == "keep-alive"
        if not (length.isdecimal() and length.isascii() and is_usual):
            return False
        if "Transfer-Encoding" in headers or "Expect" in headers:
            return False
        return self._came_before(hash(head))

    def keep(self, head: bytes, known: KnownHead) -> None:
        """Know a head from now on."""
        if len(self._known) >= _MOST:
            del self._known[next(iter(self._known))]
        self._known[head] = known

    def _came_before(self, number: int) -> bool:
        if number in self._once:
            del self._once[number]
            return True
        if len(self._once) >= _MOST_ONCE:
            del self._once[next(iter(self._once))]
        self._once[number] = None
        return False
