"""A server as a process: the first SIGTERM or Ctrl-C drains it, the second ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

from tvm_hetero.serve.server import ModelServer

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve_until_signal(server: ModelServer, told: Callable[[str], object]) -> int:
    """Serve, and return the exit status when a signal has ended it.

    Parameters
    ----------
    told : called with a sentence at each step.
    """
    loop = asyncio.get_running_loop()
    asked: asyncio.Queue[int] = asyncio.Queue()
    for number in _SIGNALS:
        loop.add_signal_handler(number, asked.put_nowait, int(number))
    first = asyncio.ensure_future(asked.get())
    try:
        starting = asyncio.ensure_future(server.start())
        await asyncio.wait({starting, first}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            told(f"ready on http://{server.options.host}:{server.port}/")
        ended_by = await first
        told(f"draining, {server.options.drain:g} s at most; once more ends at once")
        await _drain_or_end(server, asked)
        starting.cancel()
    finally:
        await server.stop()
    return 0 if ended_by == signal.SIGTERM else 128 + ended_by


async def _drain_or_end(server: ModelServer, asked: asyncio.Queue[int]) -> None:
    draining = asyncio.ensure_future(server.drain())
    second = asyncio.ensure_future(asked.get())
    await asyncio.wait({draining, second}, return_when=asyncio.FIRST_COMPLETED)
    if not draining.done():
        os._exit(128 + second.result())
    second.cancel()
