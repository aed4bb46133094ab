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
import logging
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tvm_hetero.errors import RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.serve.core.query import InferenceAnswer, InferenceQuery, Priority
from tvm_hetero.serve.core.refusal import DEADLINE, QUEUE_FULL, RefusedError
from tvm_hetero.serve.models.gated_stepper import Gate
from tvm_hetero.serve.models.served_times import ServedTimes
from tvm_hetero.serve.models.share_plans import SHAPES, Shape
from tvm_hetero.serve.models.tensor_model import TensorModel, answer_in_time, split_items
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.profile import ServiceProfile
from tvm_hetero.serve.scheduling.query import (
    Query,
    RefuseQuery,
    ResizeQuery,
    ShareDecision,
    StartQuery,
    WaitUntil,
)
from tvm_hetero.serve.scheduling.scheduler import RunningQuery, Scheduler

_LOG = logging.getLogger("tvm_hetero.serve")
# What a plan is predicted to take on fewer cores than it needs: no deadline allows it.
_NEVER = 1e6
_KEPT = 8192
_AT_THE_DOOR = -1  # the number of a query that is asked about, and not here yet
# What takes less (s) is computed by the loop's own thread: to wake another, and to be woken, takes
# about as long.
_AT_ONCE = 1e-4
_NOT_AT_ONCE = 1e-3  # what was measured to take more, never

MakeScheduler = Callable[[ServiceProfile, int], Scheduler]


@dataclass(eq=False)
class _Entry:
    """A query of a model of some name between its arrival and its end.

    `places` are the cores on which its next element goes; `begun` is when it was started (s).
    """

    query: Query
    name: str
    granted: asyncio.Future[None]
    places: tuple[int, ...] = ()
    begun: float = 0.0
    ends: list[float] = field(default_factory=list)  # of its elements, s
    shares: set[int] = field(default_factory=set)  # sizes of shares that it had


class PoolDispatcher:
    """Shares cores among the queries of all models by a policy.

    Parameters
    ----------
    cores : the pool; of one kind.
    make_scheduler : the policy, for a profile and a number of places.
    most_waiting : queries that wait at most, of all models; beyond that a model of which fewer wait
        than that by the number of models may have more.

    Attributes
    ----------
    profile : what each model takes on each number of cores, as far as is known.
    changes : when the owners of cores changed (by `time.monotonic`), and who they were then: the
        last `_KEPT` times.
    """

    def __init__(
        self, cores: Sequence[int], make_scheduler: MakeScheduler, most_waiting: int
    ) -> None:
        self._cores = tuple(cores)
        self._most = most_waiting
        self.profile = ServiceProfile({}, places=len(self._cores))
        self._make_scheduler = make_scheduler
        self._made = make_scheduler(self.profile, len(self._cores))
        self._is_stale = False  # models have come or gone since the policy was made
        self._is_broken = False  # the policy has failed: it knows no longer who has what
        self.changes: deque[tuple[float, tuple[str | None, ...]]] = deque(maxlen=_KEPT)
        self._entries: dict[int, _Entry] = {}
        self._going: set[str] = set()  # models that are forgotten with their last query
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None
        self._maker = ThreadPoolExecutor(1, thread_name_prefix="tvm_hetero shares")

    # ------------------------------------------------------------------ models

    def add(self, model: TensorModel) -> None:
        """Let a model's queries be predicted; makes its plans. Not for the event loop."""
        single, stream = (self._predict(model, shape) for shape in SHAPES)
        self.profile.add(_key(model.name, model.version), ServedTimes(single, stream))
        self._is_stale = True

    def gate(self, name: str, version: str, seconds: float) -> Gate:
        """The turns of who runs by plans of its own, on all cores, about so long at a time."""
        paces = [Pace(_NEVER, _NEVER)] * (len(self._cores) - 1) + [Pace(seconds, seconds)]
        self.profile.add(_key(name, version), ServedTimes(paces, paces))
        self._is_stale = True
        return Gate(
            lambda: self._hold_all(name, version, Priority.LOW),
            lambda: len(self.profile.models) > 1,
        )

    def remove(self, name: str, version: str) -> None:
        """Forget a model; while something of it is here the policy has to know its times."""
        self._going.add(_key(name, version))
        self._forget_gone()

    def _forget_gone(self) -> None:
        for key in self._going - {each.query.model for each in self._entries.values()}:
            self._going.discard(key)
            self.profile.remove(key)
            self._is_stale = True

    def _predict(self, model: TensorModel, shape: Shape) -> list[Pace]:
        """What it is predicted to take on 1, 2, ... cores; these shares are made, and single cores.

        Other sets of cores are made when a query is given them, for which it waits.
        """
        plans = model.instances.plans
        paces = []
        for number in range(1, len(self._cores) + 1):
            cores = frozenset(self._cores[:number])
            if plans.is_divisible or cores >= plans.cores:
                plan = plans.plan(cores, shape)
                paces.append(Pace(plan.seconds, plan.period))
                model.instances.make(cores, shape)
            else:
                paces.append(Pace(_NEVER, _NEVER))
        if plans.is_divisible:
            for core in self._cores[1:]:
                model.instances.make(frozenset({core}), shape)
        return paces

    # ------------------------------------------------------------------ what is going on

    @property
    def _scheduler(self) -> Scheduler:
        """The policy. One that divides the cores among models is made anew when these change."""
        is_over = self._is_broken and not self._entries
        if is_over or (self._is_stale and not self._made.running and not self._made.waiting):
            self._made = self._make_scheduler(self.profile, len(self._cores))
            self._is_stale = self._is_broken = False
        return self._made

    @contextmanager
    def _asking_the_policy(self) -> Iterator[None]:
        """Should it fail, those who wait are told so, and there is a new one when all have gone."""
        try:
            yield
        except Exception:
            _LOG.exception("the policy has failed; queries that wait are given up")
            self._is_broken = True
            for entry in self._entries.values():
                if not entry.granted.done():
                    entry.granted.set_exception(RunError("the server's scheduling has failed"))
            raise

    @property
    def running(self) -> Mapping[int, RunningQuery]:
        """What runs, by number, as the policy sees it."""
        return self._scheduler.running

    @property
    def waiting(self) -> tuple[Query, ...]:
        """What was taken and has not begun."""
        return self._scheduler.waiting

    @property
    def free(self) -> int:
        """Cores that nobody has."""
        return self._scheduler.pool.free

    @property
    def owners(self) -> tuple[str | None, ...]:
        """The name of the model that has each core; None: it is free."""
        return tuple(
            self._entries[owner].name if owner in self._entries else None
            for owner in self._scheduler.pool.owners
        )

    # ------------------------------------------------------------------ queries

    def check_door(self, model: TensorModel, due: float | None, priority: Priority) -> None:
        key = _key(model.name, model.version)
        self._check_queue(key)
        if due is None:
            return
        now = time.monotonic()
        query = Query(_AT_THE_DOOR, key, 1, now, max(due, now + 1e-9), priority)
        refusal = self._scheduler.foresee(query, now)
        if refusal is not None:
            self._scheduler.turned_away(query, refusal)
            raise _refusal(refusal)

    def _check_queue(self, key: str) -> None:
        """Refuse what is too much; a model's fair part of the queue is not for others to fill."""
        waiting = len(self.waiting)
        if waiting < self._most:
            return
        own = sum(each.model == key for each in self.waiting)
        if own < self._most // len(self.profile.models):
            return
        raise RefusedError(
            f"{waiting} queries wait already, the most that may", reason=QUEUE_FULL,
            retry_after=self._wait_of_all(),
        )  # fmt: skip

    async def compute(self, model: TensorModel, query: InferenceQuery) -> InferenceAnswer:
        key = _key(model.name, model.version)
        self._check_queue(key)
        due = min(query.deadline or math.inf, query.due or math.inf)
        entry = self._enter(key, model.name, query.items, query.priority, query.arrived, due)
        try:
            async with answer_in_time(query):
                await entry.granted
                entry.begun = time.monotonic()
                rows = await self._run(entry, model, query)
            self._learn(entry)
            return model.answer(query, rows, entry.begun)
        finally:
            self._leave(entry)

    @asynccontextmanager
    async def _hold_all(self, name: str, version: str, priority: Priority) -> AsyncIterator[None]:
        """Have all cores for a moment."""
        key = _key(name, version)
        entry = self._enter(key, name, 1, priority, time.monotonic(), math.inf)
        try:
            await entry.granted
            entry.begun = time.monotonic()
            yield
            self._learn(entry)
        finally:
            self._leave(entry)

    def _enter(
        self, key: str, name: str, items: int, priority: Priority, arrived: float, due: float
    ) -> _Entry:
        now = time.monotonic()
        query = Query(
            next(self._numbers), key, items, min(arrived, now), max(due, now + 1e-9), priority
        )
        self.profile.times(key)
        with self._asking_the_policy():
            decisions = self._scheduler.arrive(query, now)
        entry = _Entry(query, name, asyncio.get_running_loop().create_future())
        self._entries[query.number] = entry
        self._do(decisions, now)
        return entry

    def _leave(self, entry: _Entry) -> None:
        """The query has ended, however."""
        number, now = entry.query.number, time.monotonic()
        entry.granted.cancel()
        try:
            with self._asking_the_policy():
                if number in self._scheduler.running:
                    decisions = self._scheduler.ended(number, now)
                else:
                    decisions = self._scheduler.withdraw(number, now)
        finally:
            del self._entries[number]
            if self._going:
                self._forget_gone()
        self._do(decisions, now)

    async def _run(
        self, entry: _Entry, model: TensorModel, query: InferenceQuery
    ) -> list[list[Any]]:
        """Outputs of each element."""
        if query.items == 1:
            executor = await self._executor(entry, model)
            if executor.schedule.value < _AT_ONCE and self._is_quick(entry):
                return [executor.run(query.inputs)]
            return [await asyncio.wrap_future(executor.submit(query.inputs))]
        parts = deque(split_items(query.inputs, query.items))
        rows: list[list[Any]] = []
        while parts:
            await self._run_on_share(entry, model, parts, rows)
            running = self._scheduler.running[entry.query.number]
            if running.given_up:
                now = time.monotonic()
                with self._asking_the_policy():
                    decisions = self._scheduler.released(entry.query.number, now)
                self._do(decisions, now)
        return rows

    def _is_quick(self, entry: _Entry) -> bool:
        """Whether it was, where it was measured: a prediction may be wrong, and others wait."""
        return self.profile.latency(entry.query.model, 1, len(entry.places)) < _NOT_AT_ONCE

    async def _run_on_share(
        self,
        entry: _Entry,
        model: TensorModel,
        parts: deque[dict[str, Any]],
        rows: list[list[Any]],
    ) -> None:
        """Send elements in until there are none, or the share is another; wait for all of them."""
        places, executor = entry.places, await self._executor(entry, model)
        flying: deque[asyncio.Task[list[Any]]] = deque()
        try:
            while parts or flying:
                while parts and len(flying) < executor.depth and entry.places == places:
                    flying.append(asyncio.ensure_future(executor.run_async(parts.popleft())))
                if not flying:
                    return
                rows.append(await flying[0])
                flying.popleft()
                self._item_ended(entry, len(rows) - 1)
        finally:
            for task in flying:
                task.cancel()

    def _item_ended(self, entry: _Entry, item: int) -> None:
        now = time.monotonic()
        entry.ends.append(now)
        with self._asking_the_policy():
            decisions = self._scheduler.item_ended(entry.query.number, item, now)
        self._do(decisions, now)

    async def _executor(self, entry: _Entry, model: TensorModel) -> Executor:
        cores = frozenset(self._cores[place] for place in entry.places)
        shape: Shape = "single" if entry.query.items == 1 else "stream"
        found = model.instances.find(cores, shape)
        if found is None:
            loop = asyncio.get_running_loop()
            found = await loop.run_in_executor(self._maker, model.instances.make, cores, shape)
        return found

    def _learn(self, entry: _Entry) -> None:
        """Take samples of what it took, if it had one share all the time."""
        times = self.profile.times(entry.query.model)
        if len(entry.shares) != 1:
            return
        (share,) = entry.shares
        now = time.monotonic()
        times.add(entry.query.items, share, now - entry.begun)
        if len(entry.ends) > 1 and entry.ends[-1] > entry.ends[0]:
            times.add(0, share, (entry.ends[-1] - entry.ends[0]) / (len(entry.ends) - 1))

    # ------------------------------------------------------------------ decisions

    def _do(self, decisions: list[ShareDecision], now: float) -> None:
        self._note(now)
        for decision in decisions:
            if isinstance(decision, WaitUntil):
                self._wait_until(decision.when, now)
                continue
            entry = self._entries.get(decision.query)
            if entry is None:
                continue
            if isinstance(decision, StartQuery):
                self._set_places(entry, decision.places)
                if not entry.granted.done():
                    entry.granted.set_result(None)
            elif isinstance(decision, ResizeQuery):
                self._set_places(entry, decision.places)
            elif isinstance(decision, RefuseQuery) and not entry.granted.done():
                entry.granted.set_exception(_refusal(decision))

    def _note(self, now: float) -> None:
        owners = self.owners
        if not self.changes or self.changes[-1][1] != owners:
            self.changes.append((now, owners))

    def _set_places(self, entry: _Entry, places: tuple[int, ...]) -> None:
        entry.places = places
        entry.shares.add(len(places))

    def _wait_until(self, when: float, now: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(0.0, when - now), self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        with self._asking_the_policy():
            decisions = self._scheduler.tick(now)
        self._do(decisions, now)

    def _wait_of_all(self) -> float:
        """Seconds that what waits is predicted to take together, if nothing else came."""
        work = sum(self.profile.latency(each.model, each.items, 1) for each in self.waiting)
        return work / len(self._cores)


def _key(name: str, version: str) -> str:
    return f"{name}/{version}"


def _refusal(decision: RefuseQuery) -> RefusedError:
    return RefusedError(
        f"{decision.reason}: {decision.value:.3g} s, allowed are {decision.limit:.3g} s",
        reason=DEADLINE, retry_after=decision.retry_after,
    )  # fmt: skip
