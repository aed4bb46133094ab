"""Exceptions as HTTP's statuses; each protocol puts the text into a body of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus

from tornado.web import HTTPError

from tvm_hetero.errors import DeadlineError, HeteroError, UsageError
from tvm_hetero.serve.core.refusal import (
    AccessError,
    RefusedError,
    RequestError,
    UnknownModelError,
)

CLIENT_GONE = 499
"""For logs and metrics: no one is there to read it."""


@dataclass(frozen=True)
class Fault:
    """What a client is told: the status, one sentence, and when to come back (s, None: never)."""

    status: int
    text: str
    reason: str = ""
    retry_after: int | None = None


def describe_fault(error: BaseException) -> Fault:
    """What a client is told of an exception. Of a bug no more than that there is one."""
    if isinstance(error, RefusedError):
        return Fault(error.status, str(error), error.reason, error.retry_after_seconds)
    if isinstance(error, AccessError):
        return Fault(error.status, str(error))
    if isinstance(error, UnknownModelError):
        return Fault(HTTPStatus.NOT_FOUND, str(error))
    if isinstance(error, RequestError | UsageError):
        return Fault(HTTPStatus.BAD_REQUEST, str(error))
    if isinstance(error, DeadlineError):
        return Fault(HTTPStatus.GATEWAY_TIMEOUT, str(error), "deadline")
    if isinstance(error, HeteroError):
        return Fault(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
    if isinstance(error, HTTPError):  # of tornado: its own texts are for logs
        return Fault(error.status_code, _phrase(error.status_code))
    if isinstance(error, asyncio.CancelledError):
        return Fault(CLIENT_GONE, "cancelled")
    return Fault(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; the server's log says more")


def _phrase(status: int) -> str:
    if status == HTTPStatus.NOT_FOUND:
        return "not found; /openapi.json lists what there is"
    try:
        return HTTPStatus(status).phrase.lower()
    except ValueError:
        return "error"
