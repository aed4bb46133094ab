"""What a request's head is held against before its body comes: host, key, length."""

from __future__ import annotations

import hmac
import sys
from collections.abc import Mapping
from enum import Enum
from http import HTTPStatus

from tornado.httputil import HTTPServerRequest

from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.core.refusal import TOO_LARGE, AccessError, RefusedError
from tvm_hetero.serve.http.context import ServeContext

_MOST_DIGITS = 18  # of a length; of more than 4300 Python itself makes no number
# A connection costs more than to throw away so many bytes, which the kernel does without copying.
_SKIPPED = 4 << 20
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})


class Permission(Enum):
    """Who may ask: anyone, who has the key, who has the admin's key (and only with --admin)."""

    OPEN = "open"
    KEY = "key"
    ADMIN = "admin"


def check_host(request: HTTPServerRequest, context: ServeContext) -> None:
    """Refuse who calls a server on loopback by a name that is none of this machine's.

    Raises
    ------
    AccessError
        If a page of strangers may have been given our address by DNS.
    """
    if not context.is_loopback:
        return
    options, name = context.options, request.host_name
    if name.lower() not in _LOCAL and name not in (options.host, *options.hosts):
        raise AccessError(
            "this server is for this machine alone and is not known by that name; allow it "
            "with --allow-host", HTTPStatus.MISDIRECTED_REQUEST,
        )  # fmt: skip


def check_key(request: HTTPServerRequest, options: ServeOptions, permission: Permission) -> None:
    """Refuse who has not the key that a route wants; compared in constant time.

    Raises
    ------
    AccessError
        If it is missing or wrong, or administration is off.
    """
    is_admin = permission is Permission.ADMIN
    if is_admin and not options.admin:
        raise AccessError(
            "administration is off; start the server with --admin", HTTPStatus.FORBIDDEN
        )
    wanted = (options.admin_key if is_admin else None) or options.key
    if permission is Permission.OPEN or wanted is None:
        return
    given = request.headers.get("Authorization", "").removeprefix("Bearer ")
    if not hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
        raise AccessError("the key is missing or wrong; expected the header 'Authorization: "
                          "Bearer KEY'", HTTPStatus.UNAUTHORIZED)  # fmt: skip


def check_size(request: HTTPServerRequest, limit: int) -> None:
    """Refuse a body of which is announced that it has more bytes than the limit.

    Raises
    ------
    RefusedError
        If it has.
    """
    size = told_length(request.headers)
    if size > limit:
        raise too_large("more" if size == sys.maxsize else f"{size} bytes, more", limit)


def may_skip_body(request: HTTPServerRequest, context: ServeContext) -> bool:
    """Whether the body of a refused request may be thrown away, and its connection go on: if its
    length is told, and small enough."""
    headers = request.headers
    length, stays = headers.get("Content-Length", ""), headers.get("Connection", "keep-alive")
    is_told = length.isascii() and length.isdecimal() and "Transfer-Encoding" not in headers
    # Who expects to be told to go on may send the body after a refusal, or may not.
    is_sure = is_told and "Expect" not in headers and stays.lower() == "keep-alive"
    is_new = request.version == "HTTP/1.1" and not context.draining
    return is_sure and is_new and told_length(headers) <= _SKIPPED


def told_length(headers: Mapping[str, str]) -> int:
    """Bytes of the body as announced, and no more than ``sys.maxsize``; 0: that is not told, or is
    no number, which tornado refuses."""
    length = headers.get("Content-Length", "")
    if not length.isdecimal():
        return 0
    digits = length.lstrip("0")
    return sys.maxsize if len(digits) > _MOST_DIGITS else int(digits or "0")


def too_large(what: str, limit: int) -> RefusedError:
    """The refusal of a body."""
    return RefusedError(f"the body has {what} than the {limit} bytes that are allowed",
                        reason=TOO_LARGE, status=413)  # fmt: skip
