"""A decoder that shares the cores: each of its steps and chunks waits for its turn in the pool.

A step takes milliseconds and needs the cores of its own plan, so the pool gives it all of them for
as long. Between two steps others have their turn, by the policy: a long text does not keep a query
with a deadline waiting for more than a step, and is not kept waiting by queries for ever (ageing).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.errors import HeteroError, RunError
from tvm_hetero.generation.stepper import PendingLogits, Stepper

Logits = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Gate:
    """Where a decoder waits for its turn.

    Attributes
    ----------
    turn : a context of the event loop, in which the cores are its own.
    is_shared : whether anyone else wants them; else nobody waits.
    """

    turn: Callable[[], AbstractAsyncContextManager[None]]
    is_shared: Callable[[], bool]


class GatedStepper:
    """A stepper whose requests begin when their turn has come.

    Attributes
    ----------
    loop : in which turns are taken; until it is set, nobody waits.
    """

    loop: asyncio.AbstractEventLoop | None = None

    def __init__(self, stepper: Stepper, gate: Gate) -> None:
        self._stepper = stepper
        self._gate = gate
        self.groups, self.batch, self.chunk = stepper.groups, stepper.batch, stepper.chunk
        self.length, self.vocabulary = stepper.length, stepper.vocabulary
        self._running: set[asyncio.Task[Logits]] = set()

    def prefill(self, group: int, slot: int, tokens: Sequence[int], position: int) -> PendingLogits:
        """As `Stepper.prefill`."""
        return self._begin(lambda: self._stepper.prefill(group, slot, tokens, position))

    def step(self, group: int, tokens: Sequence[int], positions: Sequence[int]) -> PendingLogits:
        """As `Stepper.step`."""
        return self._begin(lambda: self._stepper.step(group, tokens, positions))

    def recover(self) -> None:
        """As `Stepper.recover`."""
        self._stepper.recover()

    def _begin(self, begin: Callable[[], PendingLogits]) -> PendingLogits:
        if self.loop is None or not self._gate.is_shared():
            return begin()
        answer: Future[Logits] = Future()
        self.loop.call_soon_threadsafe(self._start, begin, answer)
        return answer

    def _start(self, begin: Callable[[], PendingLogits], answer: Future[Logits]) -> None:
        task = asyncio.ensure_future(self._run(begin))
        self._running.add(task)
        task.add_done_callback(lambda task: self._settle(task, answer))

    async def _run(self, begin: Callable[[], PendingLogits]) -> Logits:
        async with self._gate.turn():
            return await self._ended(begin())

    def _settle(self, task: asyncio.Task[Logits], answer: Future[Logits]) -> None:
        """However a turn ends, there is an answer: the decoder's thread waits for it, and whoever
        closes the model waits for that thread."""
        self._running.discard(task)
        if task.cancelled():
            answer.set_exception(RunError("a step's turn was taken away before it had ended"))
        elif (error := task.exception()) is not None:
            ours = isinstance(error, HeteroError)
            answer.set_exception(error if ours else RunError(f"a step was not made: {error!r}"))
        else:
            answer.set_result(task.result())

    async def _ended(self, pending: PendingLogits) -> Logits:
        """The logits; the caches are nobody else's before they are there."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def tell(_: object) -> None:
            loop.call_soon_threadsafe(done.set_result, None)

        pending.add_done_callback(tell)
        await asyncio.shield(done)
        return pending.result()
