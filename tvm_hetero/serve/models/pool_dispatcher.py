"""A policy at work: queries of all models on one pool of cores, each on the share that it is given.

The policy (`serve.scheduling`) is told what happens and decides; here it is done, on real cores:

    start      the query's elements go into the executor of its share, as many as fit its pipeline
    resize     what is in flight ends where it is; the next element goes to the executor of the new
               share, and cores that were given up are free when they are empty
    refuse     the client is told which limit, its value, and when to come back
    end        what it took becomes a sample of the model's times, by which the next is predicted

All of it is the event loop's; only executors of new shares are made in a thread.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

from tvm_hetero.errors import DeadlineError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.core.refusal import QUEUE_FULL, RefusedError
from tvm_hetero.serve.models.gated_stepper import Gate
from tvm_hetero.serve.models.policy_driver import (
    MakeScheduler,
    PolicyDriver,
    SharedQuery,
    refusal_of,
)
from tvm_hetero.serve.models.policy_keys import due_of, is_of, key_of, name_key
from tvm_hetero.serve.models.served_times import ServedTimes
from tvm_hetero.serve.models.share_plans import SHAPES, Cores, Shape
from tvm_hetero.serve.models.tensor_model import TensorModel, answer_in_time, split_items
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.query import Query

# What a plan is predicted to take on fewer cores than it needs: no deadline allows it.
_NEVER = 1e6
_AT_THE_DOOR = -1  # the number of a query that is asked about, and not here yet
# What takes less (s) is computed by the loop's own thread: to wake another, and to be woken, takes
# about as long.
_AT_ONCE = 1e-4
_NOT_AT_ONCE = 1e-3  # what was measured to take more, never


class PoolDispatcher(PolicyDriver):
    """Shares cores among the queries of all models by a policy.

    Parameters
    ----------
    cores : the pool; of one kind.
    make_scheduler : the policy, for a profile and a number of places.
    most_waiting : queries that wait at most, of all models; beyond that a model of which fewer wait
        than that by the number of models may have more.
    """

    def __init__(
        self, cores: Sequence[int], make_scheduler: MakeScheduler, most_waiting: int
    ) -> None:
        super().__init__(len(cores), make_scheduler)
        self._cores = tuple(cores)
        self._most = most_waiting
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="tvm_hetero shares")
        self._quick: set[str] = set()  # models whose last query of one element ran at once

    # ------------------------------------------------------------------ models

    def add(self, model: TensorModel) -> None:
        """Let a model's queries be predicted; makes its plans. Not for the event loop."""
        single, stream = (self.predict(model, shape) for shape in SHAPES)
        self.know(key_of(model), ServedTimes(single, stream))

    def gate(self, name: str, version: str, seconds: float) -> Gate:
        """The turns of who runs by plans of its own, on all cores, about so long at a time."""
        paces = [Pace(_NEVER, _NEVER)] * (len(self._cores) - 1) + [Pace(seconds, seconds)]
        self.know(name_key(name, version), ServedTimes(paces, paces))
        return Gate(
            lambda: self._hold_all(name, version, Priority.LOW),
            lambda: len(self.profile.models) > 1,
        )

    def remove(self, name: str, version: str) -> None:
        """Forget a model; while something of it is here the policy has to know its times."""
        self._quick.discard(name_key(name, version))
        for known in self.profile.models:
            if is_of(known, name, version):
                self.forget(known)

    def predict(self, model: TensorModel, shape: Shape) -> list[Pace]:
        """What it is predicted to take on 1, 2, ... cores; these shares are made, and single cores.

        Other sets of cores are made when a query is given them, for which it waits.
        """
        plans = model.instances.plans
        paces = []
        for number in range(1, len(self._cores) + 1):
            cores = frozenset(self._cores[:number])
            if plans.runs_on(cores):
                plan = plans.plan(cores, shape)
                paces.append(Pace(plan.seconds, plan.period))
                model.instances.make(cores, shape)
            else:
                paces.append(Pace(_NEVER, _NEVER))
        if plans.is_divisible:
            for core in self._cores[1:]:
                model.instances.make(frozenset({core}), shape)
        return paces

    # ------------------------------------------------------------------ queries

    def check_door(self, model: TensorModel, due: float | None, priority: Priority) -> None:
        key = key_of(model)
        self.check_queue(model.name)
        if due is None:
            return
        now = time.monotonic()
        query = Query(_AT_THE_DOOR, key, 1, now, max(due, now + 1e-9), priority)
        refusal = self._scheduler.foresee(query, now)
        if refusal is not None:
            self._scheduler.turned_away(query, refusal)
            raise refusal_of(refusal)

    def check_queue(self, name: str) -> None:
        """Refuse what is too much; a model's fair part of the queue is not for others to fill."""
        waiting = self.count_waiting()
        if waiting < self._most:
            return
        names = {key.rpartition("/")[0] for key in self.profile.models}
        if self.count_waiting(name) < self._most // max(1, len(names)):
            return
        raise RefusedError(
            f"{waiting} queries wait already, the most that may", reason=QUEUE_FULL,
            retry_after=self._wait_of_all(),
        )  # fmt: skip

    def compute_at_once(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer | None:
        """As `Dispatcher.compute_at_once`: of a tiny model, while nothing runs or waits."""
        is_likely = query.items == 1 and key_of(model) in self._quick
        if not is_likely or self.running or self.waiting:
            return None
        entry = self._enter(model, query)
        try:
            executor = self._granted_at_once(entry, model)
            if executor is None:
                self._quick.discard(key_of(model))
                return None
            entry.begun = time.monotonic()
            rows = [executor.run(query.inputs)]
            self.learn(entry)
            return model.answer(query, rows, entry.begun)
        finally:
            self.leave(entry)

    async def compute(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer:
        self.check_queue(model.name)
        entry = self._enter(model, query)
        try:
            async with answer_in_time(query):
                await entry.granted
                entry.begun = time.monotonic()
                rows = await self.run(entry, model, query)
            self.learn(entry)
            return model.answer(query, rows, entry.begun)
        except DeadlineError:
            self.learn_at_least(entry, key_of(model), entry.begun)
            raise
        finally:
            self.leave(entry)

    def _enter(self, model: TensorModel, query: InferenceQuery) -> SharedQuery:
        key, due = key_of(model), due_of(query)
        return self.enter(key, model.name, query.items, query.priority, query.arrived, due)

    def _granted_at_once(self, entry: SharedQuery, model: TensorModel) -> Executor | None:
        """What runs a query that has its share now, if it is quick; raises its refusal."""
        if not entry.granted.done():
            return None
        entry.granted.result()
        executor = self._found(entry, model)
        return executor if executor is not None and self._is_quick(entry, executor) else None

    @asynccontextmanager
    async def _hold_all(self, name: str, version: str, priority: Priority) -> AsyncIterator[None]:
        """Have all cores for a moment."""
        key = name_key(name, version)
        entry = self.enter(key, name, 1, priority, time.monotonic(), math.inf)
        try:
            await entry.granted
            entry.begun = time.monotonic()
            yield
            self.learn(entry)
        finally:
            self.leave(entry)

    async def run(
        self, entry: SharedQuery, model: TensorModel, query: InferenceQuery
    ) -> list[list[Any]]:
        """Outputs of each element."""
        if query.items == 1:
            executor = await self.executor(entry, model)
            if self._is_quick(entry, executor):
                self._quick.add(entry.query.model)
                return [executor.run(query.inputs)]
            return [await asyncio.wrap_future(executor.submit(query.inputs))]
        parts = deque(split_items(query.inputs, query.items))
        rows: list[list[Any]] = []
        while parts:
            await self._run_on_share(entry, model, parts, rows)
            if self.running[entry.query.number].given_up:
                self.tell_released(entry)
        return rows

    def _is_quick(self, entry: SharedQuery, executor: Executor) -> bool:
        """Whether one element is computed in less time than another thread takes to wake.

        Where it was measured, it was, too: a prediction may be wrong, and others wait.
        """
        measured = self.profile.latency(entry.query.model, 1, len(entry.places))
        return executor.schedule.value < _AT_ONCE and measured < _NOT_AT_ONCE

    async def _run_on_share(
        self,
        entry: SharedQuery,
        model: TensorModel,
        parts: deque[dict[str, Any]],
        rows: list[list[Any]],
    ) -> None:
        """Send elements in until there are none, or the share is another; wait for all of them."""
        places, executor = entry.places, await self.executor(entry, model)
        flying: deque[asyncio.Task[list[Any]]] = deque()
        try:
            while parts or flying:
                while parts and len(flying) < executor.depth and entry.places == places:
                    flying.append(asyncio.ensure_future(executor.run_async(parts.popleft())))
                if not flying:
                    return
                rows.append(await flying[0])
                flying.popleft()
                self.tell_item_ended(entry, len(rows) - 1)
        finally:
            for task in flying:
                task.cancel()
            await asyncio.gather(*flying, return_exceptions=True)

    async def executor(self, entry: SharedQuery, model: TensorModel) -> Executor:
        """What runs a model on the places of a query; made where it is not there."""
        found = self._found(entry, model)
        if found is None:
            loop, share = asyncio.get_running_loop(), self._share(entry)
            found = await loop.run_in_executor(self._maker, model.instances.make, *share)
        return found

    def _found(self, entry: SharedQuery, model: TensorModel) -> Executor | None:
        return model.instances.find(*self._share(entry))

    def _share(self, entry: SharedQuery) -> tuple[Cores, Shape]:
        cores = frozenset(self._cores[place] for place in entry.places)
        return cores, "single" if entry.query.items == 1 else "stream"

    def learn(self, entry: SharedQuery) -> None:
        """Take samples of what it took, if it had one share all the time."""
        times = self.profile.times(entry.query.model)
        if len(entry.shares) != 1:
            return
        (share,) = entry.shares
        now = time.monotonic()
        times.add(entry.query.items, share, now - entry.begun)
        if len(entry.ends) > 1 and entry.ends[-1] > entry.ends[0]:
            times.add(0, share, (entry.ends[-1] - entry.ends[0]) / (len(entry.ends) - 1))

    def learn_at_least(self, entry: SharedQuery, key: str, begun: float) -> None:
        """Take what a query took until its deadline ended it, if that is more than was predicted.

        Without, what is too slow for its deadlines is never measured.

        Parameters
        ----------
        key : of the model or plan that computes it, which may be another than it is to the policy.
        begun : since when, by `time.monotonic`; 0: it has not been.
        """
        if not begun or len(entry.shares) != 1:
            return
        (share,), items = entry.shares, entry.query.items
        took = time.monotonic() - begun
        if took > self.profile.latency(key, items, share):
            self.profile.times(key).add(items, share, took)

    def _wait_of_all(self) -> float:
        """Seconds that what waits is predicted to take together, if nothing else came."""
        kinds = Counter((each.model, each.items) for each in self.waiting)
        work = sum(many * self.profile.latency(*kind, 1) for kind, many in kinds.items())
        return work / len(self._cores)
