"""Answers of the door itself, before there is a request that a handler could answer."""

from __future__ import annotations

from http import HTTPStatus

import orjson

from tvm_hetero.serve.core.refusal import REASON_HEADER

_CONNECTIONS = "connections"  # why a connection is turned away; it never was a query of a model


def raw_answer(
    status: HTTPStatus, text: str, retry_after: int | None = None, reason: str = ""
) -> bytes:
    """A whole HTTP response, after which the connection is closed."""
    body = orjson.dumps({"error": text})
    again = "" if retry_after is None else f"Retry-After: {retry_after}\r\n"
    again += f"{REASON_HEADER}: {reason}\r\n" if reason else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n{again}Connection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


HEAD_TOO_LARGE = raw_answer(
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the request's headers are larger than is allowed"
)
MALFORMED = raw_answer(
    HTTPStatus.BAD_REQUEST,
    "this is no request of HTTP/1.1: expected a line such as 'GET /v2 HTTP/1.1', one Host, at most "
    "one Content-Length or else Transfer-Encoding: chunked, and an empty line after the headers",
)
HEAD_TOO_SLOW = raw_answer(HTTPStatus.REQUEST_TIMEOUT, "the request's headers came too slowly")
TOO_MANY_CONNECTIONS = raw_answer(
    HTTPStatus.SERVICE_UNAVAILABLE, "too many connections are open; close some", 1, _CONNECTIONS
)
TOO_MANY_OF_ONE = raw_answer(
    HTTPStatus.TOO_MANY_REQUESTS, "too many connections of your address are open; close some", 1,
    _CONNECTIONS,
)  # fmt: skip
NO_DESCRIPTORS = raw_answer(
    HTTPStatus.SERVICE_UNAVAILABLE, "the server has no file descriptors left for connections", 1,
    _CONNECTIONS,
)  # fmt: skip
