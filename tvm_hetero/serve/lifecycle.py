"""A server as a process: the first SIGTERM or Ctrl-C drains it, the second ends it at once.

The first is the event loop's business. From then on a thread waits for the second, because the
loop may be busy with what does not end: a load, a model's last kernel.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, NoReturn

from tvm_hetero.processes.descendants import end_descendants
from tvm_hetero.serve.greeting import greeting
from tvm_hetero.serve.logs import logging_to_stderr
from tvm_hetero.serve.server import ModelServer
from tvm_hetero.util.leftovers import remove_all
from tvm_hetero.util.untrusted_names import printable

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve_until_signal(server: ModelServer, told: Callable[[str], object]) -> int:
    """Serve, and return the exit status when a signal has ended it.

    What is being loaded when the signal comes cannot be interrupted: if it is not done when all is
    answered and the drain's time is over, the process ends without it.

    Parameters
    ----------
    told : called with a sentence at each step.

    Raises
    ------
    UsageError
        If the address is taken.
    HeteroError
        If a model cannot be loaded.
    """
    with logging_to_stderr():
        return await _serve(server, told)


async def _serve(server: ModelServer, told: Callable[[str], object]) -> int:
    first = _first_signal()
    names = ", ".join(name for name, _ in server.context.repository)
    if names:
        told(f"loading {printable(names, limit=None)}")
    starting = asyncio.ensure_future(server.start())
    try:
        either: set[asyncio.Future[Any]] = {starting, first}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            _leave_to_collector_what_comes()
            for line in greeting(server.models, server.options, server.port):
                told(line)
        ended_by = await first
        _end_at_next_signal()
        told(f"draining, {server.options.drain:g} s at most; once more ends at once")
        await server.drain()
        starting.cancel()
    except BaseException:
        await server.stop()
        raise
    status = 0 if ended_by == signal.SIGTERM else 128 + ended_by
    try:
        await asyncio.wait_for(server.stop(), server.options.drain)
    except TimeoutError:
        told("a load did not end in time; ending without it")
        _end_now(status)
    return status


def _leave_to_collector_what_comes() -> None:
    """What is there now (modules, kernels, plans) stays: to look at all of it again and again for
    what can be thrown away took a twentieth of a small request's time."""
    gc.collect()
    gc.freeze()


def _end_now(status: int) -> NoReturn:
    """End the process with nothing left of it: no child, no temporary file."""
    end_descendants()
    remove_all()
    os._exit(status)


def _first_signal() -> asyncio.Future[int]:
    loop = asyncio.get_running_loop()
    first: asyncio.Future[int] = loop.create_future()

    def note(number: int) -> None:
        if not first.done():
            first.set_result(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, note, int(number))
    return first


def _end_at_next_signal() -> None:
    """Python's handlers run between two steps of the main thread, which may never come: so a
    thread waits for the byte that the C handler writes at once."""
    loop = asyncio.get_running_loop()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in _SIGNALS:
        loop.remove_signal_handler(number)
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writing)

    def end() -> None:
        _end_now(128 + os.read(reading, 1)[0])

    threading.Thread(target=end, name="tvm_hetero second signal", daemon=True).start()
