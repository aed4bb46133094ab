"""Deadlines: how a client tells one, and what ends at it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from tvm_hetero.errors import DeadlineError
from tvm_hetero.serve.core.refusal import RequestError
from tvm_hetero.util.quote import quote

TIMEOUT_HEADER = "tvm-hetero-timeout-us"
"""Microseconds from a request's first byte to its answer, for all protocols: a header is there
before the body is."""
_MOST_DIGITS = 15


def whole_number(text: str) -> int | str:
    """The number that a header says; what is none is left as it is, to be quoted."""
    return int(text) if text.isdecimal() and len(text) <= _MOST_DIGITS else text


def timeout_of(microseconds: object) -> float | None:
    """A timeout in seconds; None: there is none, which 0 says.

    Raises
    ------
    RequestError
        If it is no whole number of microseconds.
    """
    if type(microseconds) is not int or microseconds < 0:
        raise RequestError(f"timeout {quote(microseconds)}: expected whole microseconds from 0 up")
    return microseconds * 1e-6 or None


def timeout_by_header(headers: Mapping[str, str]) -> float | None:
    """The timeout (s) that headers tell; None: none.

    Raises
    ------
    RequestError
        As in `timeout_of`.
    """
    if TIMEOUT_HEADER not in headers:
        return None
    return timeout_of(whole_number(headers[TIMEOUT_HEADER]))


@asynccontextmanager
async def end_at(deadline: float | None, arrived: float) -> AsyncIterator[None]:
    """Cancel what is awaited inside at a deadline.

    Parameters
    ----------
    deadline, arrived : when it ends, and when the request came, by `time.monotonic`.

    Raises
    ------
    DeadlineError
        If it was not done then.
    """
    left = None if deadline is None else deadline - time.monotonic()
    try:
        async with asyncio.timeout(left) as limit:
            yield
    except TimeoutError:
        if not limit.expired():
            raise  # of what was awaited
        waited = time.monotonic() - arrived
        raise DeadlineError(f"deadline: not done {waited:.3g} s after it came") from None
