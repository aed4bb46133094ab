"""Errors in OpenAI's form: ``{"error": {"message", "type", "param", "code"}}``.

Its clients ask again by themselves on 408, 409, 429 and all of 500 and above, unless
``x-should-retry`` says that it is useless; under overload that would triple what comes.
"""

from __future__ import annotations

from typing import Any

from tvm_hetero.serve.core.refusal import RequestError, UnknownModelError
from tvm_hetero.serve.http.errors import Fault

_CODES = {401: "invalid_api_key", 404: "not_found", 413: "request_too_large", 504: "timeout"}


class InvalidRequestError(RequestError):
    """A request of which one field is wrong.

    Attributes
    ----------
    param : the field.
    code : a word for programs.
    """

    def __init__(self, text: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(text)
        self.param = param
        self.code = code


def error_body(fault: Fault, error: BaseException | None = None) -> dict[str, Any]:
    """What a client is told of an error."""
    code = getattr(error, "code", None) or fault.reason or _CODES.get(fault.status)
    param = getattr(error, "param", None)
    if isinstance(error, UnknownModelError):
        param, code = "model", "model_not_found"
    kind = _kind(fault.status)
    return {"error": {"message": fault.text, "type": kind, "param": param, "code": code}}


def is_worth_retrying(fault: Fault) -> bool | None:
    """What ``x-should-retry`` says; None: nothing, since no client would ask again."""
    if fault.status not in (408, 409, 429) and fault.status < 500:
        return None
    return fault.retry_after is not None


def _kind(status: int) -> str:
    if status == 401:
        return "authentication_error"
    if status == 403:
        return "permission_error"
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"
