"""When a request has to be answered, and what happens then."""

from __future__ import annotations

import asyncio
import time

import pytest

from tvm_hetero.errors import DeadlineError
from tvm_hetero.serve.core.deadline import TIMEOUT_HEADER, end_at, timeout_by_header
from tvm_hetero.serve.core.refusal import RequestError


@pytest.mark.parametrize(
    ("text", "seconds"), [("250000", 0.25), ("0", None), ("1", 1e-6), (None, None)]
)
def test_a_header_tells_microseconds_and_nought_is_no_timeout(text, seconds):
    headers = {} if text is None else {TIMEOUT_HEADER: text}
    assert timeout_by_header(headers) == seconds


@pytest.mark.parametrize("text", ["", "-1", "1.5", "1_000", " 1", "²", "9" * 16])
def test_what_is_no_whole_number_is_refused_and_quoted(text):
    with pytest.raises(RequestError, match=r"timeout .*: expected whole microseconds"):
        timeout_by_header({TIMEOUT_HEADER: text})


def test_what_is_awaited_ends_at_the_deadline():
    async def main() -> None:
        arrived = time.monotonic()
        with pytest.raises(DeadlineError, match="deadline: not done"):
            async with end_at(arrived + 0.01, arrived):
                await asyncio.Event().wait()

    asyncio.run(main())


def test_a_timeout_of_what_is_awaited_is_no_deadline():
    async def main() -> None:
        now = time.monotonic()
        with pytest.raises(TimeoutError, match="a socket"):
            async with end_at(now + 3600, now):
                raise TimeoutError("a socket")

    asyncio.run(main())
