"""First come, first served: the plainest dispatcher, for tests of what stands around one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tvm_hetero.serve.core.deadline import end_at
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.core.refusal import DEADLINE, QUEUE_FULL, RefusedError
from tvm_hetero.serve.models.tensor_model import TensorModel


class TurnDispatcher:
    """First come, first served: each model's own queue, each by the plan that it has.

    Waiting is predicted by the pace of what ended last; who would come too late is not let in.
    """

    def __init__(self, most_waiting: int) -> None:
        self._most = most_waiting
        self._waiting: dict[str, int] = {}
        self._gates: dict[str, asyncio.Semaphore] = {}
        self._pace: dict[str, float] = {}  # seconds an element, of what ended last

    def check_door(self, model: TensorModel, due: float | None, priority: Priority) -> None:
        waiting = self._waiting.get(model.name, 0)
        predicted = (waiting + 1) * self._pace.get(model.name, 0.0)
        if waiting >= self._most:
            raise RefusedError(
                f"{waiting} queries of the model wait already, the most that may",
                reason=QUEUE_FULL, retry_after=predicted,
            )  # fmt: skip
        if due is not None and time.monotonic() + predicted > due:
            raise RefusedError(
                f"it would be done in {predicted:.3g} s, after its deadline",
                reason=DEADLINE, retry_after=predicted,
            )  # fmt: skip

    def compute_at_once(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer | None:
        return None

    async def compute(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer:
        self.check_door(model, query.deadline, query.priority)
        gate = self._gates.setdefault(model.name, asyncio.Semaphore(max(1, model.executor.depth)))
        with self._counted(model.name):
            async with end_at(query.deadline, query.arrived):
                await gate.acquire()
            try:
                answer = await model.compute(query)
            finally:
                gate.release()
        pace = answer.computed / query.items / max(1, model.executor.depth)
        self._pace[model.name] = pace
        return answer

    @contextmanager
    def _counted(self, model: str) -> Iterator[None]:
        self._waiting[model] = self._waiting.get(model, 0) + 1
        try:
            yield
        finally:
            self._waiting[model] -= 1
