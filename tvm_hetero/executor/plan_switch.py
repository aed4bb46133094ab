"""Plans of one model that take over from each other while requests come.

An *active plan* has a native executor, with threads and slots of its own. All active plans
of an executor share weights and compiled kernels, so that another plan compiles and copies nothing.
There is one that takes what comes; `PlanSwitch.switch` puts another one in its place:

    1. the new plan's threads start and its slots are allocated, while the old one goes on (in
       pieces, with rests between them: both want the same cores);
    2. whoever comes now finds the new one;
    3. the old one is retired: it refuses (`PlanRetired`) who found it a moment ago, or waits in its
       queue, and they go to the new one; what is in flight ends there as it would have anyway;
    4. its threads end.

From 2 on a thread does it, which no Ctrl-C interrupts: half a switch would leave requests waiting
for a core that nobody leaves.

So each request is worked on once, by one plan, and has the outputs of that plan. Who takes results
in the order in which he submitted (`map`) keeps tickets, each of its plan, and sees that order.

Both plans have threads on the same cores until the old one is empty. A core goes over when the last
request of the old plan has passed it (``src/executor/departure.h``), so neither slows the other
down, and who was first is first. Memory is that of two plans at most: a switch waits until the one
before is through.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

from tvm_hetero.artifact.executable import Variant
from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.executor import native
from tvm_hetero.executor.async_api import Gates
from tvm_hetero.executor.futures import Completions
from tvm_hetero.executor.inputs import device_of_slot
from tvm_hetero.executor.loading import set_constants, set_libraries
from tvm_hetero.executor.native import NativeExecutor
from tvm_hetero.executor.native_calls import PlanRetired, blocks_shutdown
from tvm_hetero.executor.rpc_steps import RpcSteps
from tvm_hetero.executor.staging import Staging
from tvm_hetero.executor.streaming import NO_DEADLINE
from tvm_hetero.plan.format import native_text
from tvm_hetero.plan.model import Plan
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.interruptible_waits import await_event

# How long `close` waits for callbacks that run.
CLOSING = 10.0
# Making a plan ready takes some milliseconds of a core on which the plan before it is at work. With
# rests of so many times as long as each piece took it holds up each request a little, instead of
# one for all of it. C++ rests likewise (src/support/pace.h).
_REST = 4.0


@dataclass
class LoadedModel:
    """What all plans of a model share.

    Attributes
    ----------
    weights : by their names in the plans.
    placed : weights that are in some device's memory, by name and memory.
    kernels : libraries that are loaded, by path.
    """

    platform: Platform
    weights: Mapping[str, Any]
    placed: dict[tuple[str, str], Any] = field(default_factory=dict)
    kernels: dict[Path, Any] = field(default_factory=dict)


class ActivePlan:
    """One plan at work.

    Attributes
    ----------
    native : its executor.
    name, schedule : of the plan.
    completions : completes the futures of its requests.
    staging : memory for the inputs of its runs.
    gates : in which coroutines queue up for it.
    """

    def __init__(
        self,
        executor: NativeExecutor,
        name: str,
        schedule: Schedule,
        boards: RpcSteps | None = None,
    ) -> None:
        self.native = executor
        self.name = name
        self.schedule = schedule
        self.completions = Completions(executor)
        self.staging = Staging(executor.plan)
        self.gates = Gates(executor.frames)
        self._boards = boards

    @classmethod
    def load(
        cls,
        name: str,
        variant: Variant,
        schedule: Schedule,
        model: LoadedModel,
        before: ActivePlan | None = None,
    ) -> ActivePlan:
        """Start the threads of a plan, and give it kernels and weights.

        Parameters
        ----------
        name, schedule : of the plan.
        before : the plan that it is to take over from.
        """
        old = None if before is None else before.native
        rests = _Rests(_REST if old is not None else 0.0)
        plan, libraries = variant.plan, variant.libraries
        text = native_text(plan)
        rests.rest()
        executor = native.create(plan, old, text)  # checks the plan: what follows may trust it
        boards: RpcSteps | None = None
        try:
            rests.begin()
            set_libraries(executor, libraries, model.kernels)
            set_constants(executor, model.weights, model.placed)
            rests.rest()
            boards = RpcSteps(executor, model.platform, libraries, model.weights)
            return cls(executor, name, schedule, boards)
        except BaseException:
            executor.join()  # else its threads live for as long as somebody holds the error
            if boards is not None:
                boards.close()
            raise

    def close(self) -> None:
        """Fail what is in flight, and begin nothing more."""
        self.native.close()
        if self._boards is not None:
            self._boards.close()


@dataclass(frozen=True)
class Ticket:
    """A request in flight: its number, and the plan that works on it."""

    active: ActivePlan
    number: int


class _Rests:
    """Rests after each piece of work, so many times as long as it took of a core."""

    def __init__(self, times: float) -> None:
        self._times = times
        self._since = time.thread_time()

    def begin(self) -> None:
        """A piece begins here."""
        self._since = time.thread_time()

    def rest(self) -> None:
        """It has ended, and the next one begins."""
        time.sleep(self._times * max(time.thread_time() - self._since, 0.0))
        self.begin()


class PlanSwitch:
    """The plan that takes what comes, and the one before it while that has something in flight."""

    def __init__(self, first: ActivePlan) -> None:
        self.current = first
        self._retiring: ActivePlan | None = None
        # Of all plans: the thread of one lives on while callbacks run.
        self._completions = [weakref.ref(first.completions)]
        self._switching = threading.Lock()
        self._switcher = 0  # the thread that holds it
        self._drained = threading.Event()
        self._drained.set()
        self._is_closed = False
        self._process = os.getpid()

    @property
    def frames(self) -> int:
        """How many requests are in flight at most, in the plan that takes what comes."""
        return self.current.native.frames

    def submit(
        self, tensors: Any, deadline: float, patience: float, notify: bool = False
    ) -> Ticket | None:
        """`NativeExecutor.submit`; None if there is no room."""
        began = time.monotonic()
        while True:
            active = self.current
            if notify:
                active.completions.start()
            with contextlib.suppress(PlanRetired):
                number = active.native.submit(tensors, deadline, patience, notify)
                return Ticket(active, number) if number else None
            deadline, patience = _left(deadline, began), _patience_left(patience, began)
            began = time.monotonic()

    def serve(
        self, tensors: Any, deadline: float, patience: float, settle: float
    ) -> list[Any] | None:
        """`NativeExecutor.serve`."""
        began = time.monotonic()
        while True:
            with contextlib.suppress(PlanRetired):
                return self.current.native.serve(tensors, deadline, patience, settle)
            deadline, patience = _left(deadline, began), _patience_left(patience, began)
            began = time.monotonic()

    def switch(self, load: Callable[[ActivePlan], ActivePlan]) -> None:
        """Let another plan take what comes; waits until the switch before is through.

        Parameters
        ----------
        load : makes it, given the one that it takes over from.

        Raises
        ------
        UsageError
            If this thread is in a switch already (in a signal's handler, say).
        RunError
            If the executor is closed, or this is a fork.
        """
        if self._process != os.getpid():
            raise RunError(
                f"the executor was made in process {self._process} and its threads are not in this "
                f"fork, {os.getpid()}: make the executor after forking, or spawn"
            )
        if self._switcher == threading.get_ident():
            raise UsageError("a switch from within a switch of the same executor: wait for its end")
        with self._switching:
            self._switcher = threading.get_ident()
            try:
                self._switch(load)
            finally:
                self._switcher = 0

    def _switch(self, load: Callable[[ActivePlan], ActivePlan]) -> None:
        self.await_drained()
        self._require_open()
        active = load(self.current)
        taken = threading.Event()
        thread = threading.Thread(
            target=self._take_over, args=(active, taken), name="tvm_hetero switch", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # there can be no more threads: the old plan goes on
            active.close()
            raise
        await_event(taken)
        self._require_open()

    def await_drained(self) -> None:
        """Wait until nothing is in flight in the plan before the current one."""
        await_event(self._drained)

    def stop(self) -> None:
        """Fail all that is in flight, and begin nothing more; waits for nothing."""
        self._is_closed = True
        for active in self._plans():
            active.close()

    def close(self) -> None:
        """`stop`, and wait for callbacks that run."""
        self.stop()
        for known in self._completions:
            if (completions := known()) is not None:
                completions.join(CLOSING)

    def _require_open(self) -> None:
        if self._is_closed:
            raise RunError("the executor is closed: make a new one")

    def _take_over(self, active: ActivePlan, taken: threading.Event) -> None:
        """Body of the thread: `_hand_over`, whatever happens."""
        self._drained.clear()
        try:
            self._hand_over(active, taken)
        except RunError:  # the interpreter ends
            active.close()
        finally:
            taken.set()
            self._drained.set()

    @blocks_shutdown
    def _hand_over(self, active: ActivePlan, taken: threading.Event) -> None:
        """Put a plan in the place of the current one, and wait until that one is gone."""
        old = self.current
        known = [one for one in self._completions if one() is not None]
        self._completions = [*known, weakref.ref(active.completions)]
        self._retiring, self.current = old, active
        if self._is_closed:  # by `stop`, which may not have seen the new plan
            active.close()
        taken.set()
        with contextlib.suppress(RunError):  # the interpreter ends
            old.native.retire()
        old.close()
        old.native.join()
        self._retiring = None

    def _plans(self) -> list[ActivePlan]:
        """All that have, or may get, something in flight."""
        current, retiring = self.current, self._retiring  # not the other way round: one may be new
        return [current] if retiring in (None, current) else [retiring, current]


def _left(deadline: float, began: float) -> float:
    """What is left of a deadline in seconds, which stays one where nothing is."""
    if deadline == NO_DEADLINE:
        return deadline
    return max(deadline - (time.monotonic() - began), 1e-9)


def _patience_left(patience: float, began: float) -> float:
    return patience if patience <= 0 else max(patience - (time.monotonic() - began), 0.0)


def check_fits(old: Plan, new: Plan) -> None:
    """Refuse a plan that cannot take over from another, nor from those that that one fits.

    Raises
    ------
    UsageError
        If it takes or gives other tensors, has another batch, or inputs in another memory.
    """
    if old.batch != new.batch:
        raise UsageError(
            f"expected a plan for batches of {old.batch}, as the one that runs; got {new.batch}"
        )
    for what, ours, theirs in (
        ("inputs", _inputs(old), _inputs(new)),
        ("outputs", _outputs(old), _outputs(new)),
    ):
        if ours != theirs:
            rows = zip_longest(ours, theirs)
            other = next((a, b) for a, b in rows if a != b)
            raise UsageError(
                f"the plan is of another model or lies in other memories: its {what} are not those "
                f"of the plan that runs (expected {other[0]}, got {other[1]})"
            )


def _inputs(plan: Plan) -> list[tuple[Any, ...]]:
    return [
        (row.name, row.type, row.is_state, row.range, str(device_of_slot(plan, row.slot)))
        for row in plan.inputs
    ]


def _outputs(plan: Plan) -> list[tuple[Any, ...]]:
    return [
        (row.name, row.shape, row.length and row.length[1], plan.slots[row.slot].type)
        for row in plan.outputs
    ]
