"""The asynchronous flavour of submitting: no event loop is ever held up by a full pipeline.

Callers of one event loop queue up (first come, first served) for as many places as the pipeline
has, so that what is submitted mostly finds room at once. Only when other threads fill the pipeline
as well does a thread of the loop's default pool wait for room instead of the loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from tvm_hetero.errors import DeadlineError
from tvm_hetero.executor.futures import Pending

# Submits within so many seconds (None: wait as long as it takes); None if there was no room.
Submit = Callable[[float | None], Pending | None]
Inputs = Any
# How often who waits for room in a thread looks whether that is still wanted, s.
LOOK = 0.02


class Gates:
    """A queue for each event loop that uses an executor."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]
        self._gates = weakref.WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """The queue of the running loop."""
        loop = asyncio.get_running_loop()
        gate = self._gates.get(loop)
        if gate is None:
            gate = self._gates[loop] = asyncio.Semaphore(self._places)
        return gate


async def run_in_turn(
    gates: Gates, submit: Callable[[float | None, float | None], Pending | None], end: float | None
) -> list[Any]:
    """Outputs of a request, submitted when its turn comes.

    Parameters
    ----------
    submit
        Takes how long it may wait, and the deadline (both seconds, None: none).
    end
        When it has to be done, by `time.monotonic`.

    Raises
    ------
    DeadlineError
        If its turn did not come in time, or it was not done in time.
    """
    gate = gates.here()
    try:
        async with asyncio.timeout(_left(end)):
            await gate.acquire()
    except TimeoutError:
        raise DeadlineError("deadline: the request's turn did not come in time") from None
    try:
        pending, allowed = submit(0.0, _left(end)), _left(end)
        if pending is None:
            try:
                pending = await _submit_aside(lambda wait: submit(wait, _left(end)))
            except DeadlineError:  # of the last look, which was a short one
                raise DeadlineError(f"deadline: there was no room within {allowed:g} s") from None
        return await asyncio.wrap_future(pending)
    finally:
        gate.release()


def _left(end: float | None) -> float | None:
    return None if end is None else end - time.monotonic()


async def _submit_aside(submit: Submit) -> Pending:
    """Submit in another thread, which may have to wait; what is given up meanwhile does not begin.

    There may be room for it long after: the one who waits looks up every `LOOK` s. What has begun
    since then is cancelled.
    """
    given_up = threading.Event()

    def wait_for_room() -> Pending | None:
        while not given_up.is_set():
            if (pending := submit(LOOK)) is not None:
                if given_up.is_set():
                    pending.cancel()
                return pending
        return None

    attempt = asyncio.get_running_loop().run_in_executor(None, wait_for_room)
    try:
        pending = await asyncio.shield(attempt)
    except asyncio.CancelledError:
        given_up.set()
        attempt.add_done_callback(_give_up)
        raise
    assert pending is not None, "it was not given up"
    return pending


def _give_up(attempt: asyncio.Future[Pending | None]) -> None:
    """Cancel what began as it was given up, and take its error, which nobody wants."""
    if not attempt.cancelled() and attempt.exception() is None:
        pending = attempt.result()
        if pending is not None:
            pending.cancel()


async def map_in_order(
    run: Callable[[Inputs], Awaitable[list[Any]]],
    batches: AsyncIterable[Inputs] | Iterable[Inputs],
    places: Callable[[], int],
) -> AsyncIterator[list[Any]]:
    """Outputs of each of `batches` in order, `places()` of them in flight at most.

    As in `tvm_hetero.executor.streaming.stream`, what stands before a failure is handed out first.
    """
    waiting: deque[asyncio.Future[list[Any]]] = deque()
    source = _each(batches)
    failure: Exception | None = None
    try:
        while True:
            try:
                inputs = await anext(source)
            except StopAsyncIteration:
                break
            except Exception as error:
                failure = error
                break
            waiting.append(asyncio.ensure_future(run(inputs)))
            if len(waiting) > places():
                yield await waiting.popleft()
        while waiting:
            yield await waiting.popleft()
        if failure is not None:
            raise failure
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _each(batches: AsyncIterable[Inputs] | Iterable[Inputs]) -> AsyncIterator[Inputs]:
    if isinstance(batches, AsyncIterable):
        async for inputs in batches:
            yield inputs
    else:
        for inputs in batches:
            yield inputs
            await asyncio.sleep(0)  # lets what was made begin, in this order
