"""The load itself: by a clock that waits for no one, or by so many who wait for their answers.

In an open loop each request is due at a moment that was fixed beforehand, and its latency counts
from that moment, whether or not the client came to send it: where a client waits for slow answers
before it sends the next request, it measures the server only when that is quick ("coordinated
omission"). How late the client itself was is told beside it.
"""

from __future__ import annotations

import asyncio
import json
import selectors
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.serve.load_test.arrivals import Arrival
from tvm_hetero.serve.load_test.bodies import RequestHead, get_request
from tvm_hetero.serve.load_test.client import ClientPool, ClientReply, LostConnectionError
from tvm_hetero.serve.load_test.records import NO_REPLY, LoadRecord, LoadRun
from tvm_hetero.util.quote import quote

_PATIENCE = 30.0  # seconds without a reply after which a request has none
_TOGETHER = 64  # requests that are sent before replies are looked at
T = TypeVar("T")


def in_loop(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives, in a loop whose clock is finer than a millisecond: that of epoll
    wakes up to one late, which would be in each latency."""
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(work)


async def fetch_metadata(pool: ClientPool, head: RequestHead, model: str) -> dict[str, Any]:
    """What a server says of a model.

    Raises
    ------
    UsageError
        If it cannot be reached, or serves no such model.
    """
    try:
        reply = await _exchange(pool, get_request(head, f"/v2/models/{model}"))
    except (OSError, LostConnectionError) as error:
        reason = f"{error.strerror or error}" if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"{head.authority} does not answer ({reason}); see that 'tvm-hetero serve' runs there "
            "and that nothing is between"
        ) from None
    if reply.status != 200:
        raise UsageError(f"{head.authority} says of model {quote(model)}: HTTP {reply.status}, "
                         f"{_reason(reply.body)}")  # fmt: skip
    try:
        found = json.loads(reply.body)
        return {"name": model, "inputs": list(found["inputs"])}
    except (ValueError, KeyError, TypeError):
        raise RunError(f"{head.authority} speaks no Open Inference Protocol: "
                       f"{quote(reply.body)}") from None  # fmt: skip


def _reason(body: bytes) -> str:
    """What an error says, of our protocols' and of others'."""
    try:
        return quote(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return quote(body)


async def open_loop(
    pool: ClientPool, requests: Mapping[str, bytes], arrivals: Sequence[Arrival], load: str,
    seconds: float,
) -> LoadRun:  # fmt: skip
    """Send each request when it is due, and wait for what is left in the end."""
    run = LoadRun(load, seconds, len(arrivals) / max(seconds, 1e-9))
    begin = time.perf_counter()
    tasks: set[asyncio.Task[None]] = set()
    for number, arrival in enumerate(arrivals):
        early = begin + arrival.seconds - time.perf_counter()
        if early > 0 or number % _TOGETHER == 0:
            await asyncio.sleep(max(0.0, early))
        ask = _ask(pool, requests[arrival.model], arrival.model, begin, arrival.seconds, run)
        task = asyncio.ensure_future(ask)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
    while tasks:
        await asyncio.wait(tasks)
    run.connections = pool.opened
    return run


async def closed_loop(
    pool: ClientPool, requests: Mapping[str, bytes], at_once: int, seconds: float
) -> LoadRun:
    """So many clients, each of which asks again when it is answered; models take turns."""
    run = LoadRun(f"{at_once} at once", seconds, None)
    begin = time.perf_counter()

    async def client(number: int) -> None:
        names = sorted(requests)
        while (now := time.perf_counter() - begin) < seconds:
            model = names[number % len(names)]
            await _ask(pool, requests[model], model, begin, now, run)
            number += 1

    await asyncio.gather(*(client(number) for number in range(at_once)))
    run.connections = pool.opened
    return run


async def _ask(
    pool: ClientPool, request: bytes, model: str, begin: float, due: float, run: LoadRun
) -> None:
    sent = time.perf_counter() - begin
    status, reason = NO_REPLY, ""
    try:
        if pool.is_full:
            run.waited += 1
        reply = await _exchange(pool, request)
        status, reason = reply.status, reply.reason
    except (OSError, LostConnectionError) as error:
        reason = str(error)
    ended = time.perf_counter() - begin
    run.records.append(LoadRecord(model, due, sent, ended, status, reason))


async def _exchange(pool: ClientPool, request: bytes) -> ClientReply:
    connection = await pool.take()
    try:
        text = f"no reply within {_PATIENCE:g} s"
        timer = asyncio.get_running_loop().call_later(_PATIENCE, connection.fail, text)
        try:
            return await connection.send(request)
        finally:
            timer.cancel()
    finally:
        pool.give_back(connection)
