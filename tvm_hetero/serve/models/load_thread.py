"""A thread for one piece of work, which does not keep the process alive: a load can take long."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """What some work gives, in a thread of its own; who is cancelled does not end it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return  # nobody waits any more
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as caught:
            error = caught
        with suppress(RuntimeError):  # the loop is closed: the server has ended without it
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="tvm_hetero loading", daemon=True).start()
    return await done
