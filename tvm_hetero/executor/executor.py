"""Run a built model: the plan on the C++ executor, with the model's own names for everything.

A request is one set of inputs, or a batch of them where the plan is for batches (the shapes stand
in `tvm_hetero.executor.batches`). Several are in the executor at once, each device at work on
another. All ways to run come down to three calls of C++, which may be made from any thread:

    submit    gives a request its inputs and a ticket; waits for room while `depth` are in flight
    wait      sleeps until it has ended
    take      its outputs, or its error

`run`, which has nothing to do meanwhile, makes them as one (`serve`), since a call takes as long as
a tiny model's kernels (`python -m benchmarks.calls`).
"""

from __future__ import annotations

import math
import os
import time
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tvm_hetero.artifact.executable import Executable, Variant
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.errors import DeadlineError, FullError, UsageError
from tvm_hetero.executor.async_api import map_in_order, run_in_turn
from tvm_hetero.executor.batches import join_outputs, make_stacks
from tvm_hetero.executor.futures import Pending
from tvm_hetero.executor.inputs import RequestTensors, merge_inputs
from tvm_hetero.executor.inputs import TensorInfo as TensorInfo
from tvm_hetero.executor.inputs import identifier as identifier
from tvm_hetero.executor.loading import check_cores, check_processor
from tvm_hetero.executor.native_calls import blocks_shutdown
from tvm_hetero.executor.plan_switch import (
    CLOSING,
    ActivePlan,
    LoadedModel,
    PlanSwitch,
    Ticket,
    check_fits,
)
from tvm_hetero.executor.profiling import Inputs as Inputs
from tvm_hetero.executor.profiling import Measured
from tvm_hetero.executor.spans import KernelTime as KernelTime
from tvm_hetero.executor.spans import TracedStep as TracedStep
from tvm_hetero.executor.state import State as State
from tvm_hetero.executor.streaming import FOR_EVER, NO_DEADLINE, stream
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.util.closeable import Closeable
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote

# How long a run that is cut off waits for its last kernel, which writes to a state that the next
# run is to have.
_SETTLING = CLOSING

OTHER = "other"
"""As `Executor.variant`: a plan that is not the artifact's."""


def load(path: str | os.PathLike[str], variant: str | None = None) -> Executor:
    """Load an artifact and start its executor.

    Raises
    ------
    ArtifactError
        If there is no artifact, or it is damaged or of another version.
    """
    return Executor(load_artifact(path), variant)


class Executor(Measured, Closeable):
    """Runs a model on all of its devices at once.

    >>> ex = tvm_hetero.load("net.hetero")                           # doctest: +SKIP
    >>> out = ex.run(data_0=x)                                       # doctest: +SKIP
    >>> for out in ex.map({"data_0": x} for x in images): ...        # doctest: +SKIP
    >>> pending = ex.submit(data_0=x, deadline=0.1)                  # doctest: +SKIP
    >>> out = await ex.run_async(data_0=x)                           # doctest: +SKIP

    Any number of threads may run, submit and map; what measures (`tvm_hetero.executor.profiling`:
    `benchmark`, `throughput`, `trace`, `kernel_times`) is for one thread while no other runs. A
    request that fails fails alone.

    Attributes
    ----------
    inputs : names, shapes and types; outputs : names, in the model's order.
    batch : how many elements a request has.
    states : names of what the model keeps from one request to the next (`new_state`); mostly none.
    problem : of the model on its platform.
    """

    @blocks_shutdown
    def __init__(
        self,
        executable: Executable,
        variant: str | None = None,
        *,
        beside: Executor | None = None,
    ) -> None:
        """Start the threads of a plan.

        Parameters
        ----------
        variant : which plan of the executable; None: its default.
        beside : an executor of the same model, whose weights and kernels this one uses, too.

        Raises
        ------
        UsageError
            If it is no executable, or has no such variant.
        """
        if not isinstance(executable, Executable):
            raise UsageError(
                f"expected an Executable, got {type(executable).__name__}; tvm_hetero.build makes "
                "one, and tvm_hetero.load(path) runs an artifact"
            )
        name = variant or executable.default
        self._variants = executable.variants
        self._model: LoadedModel = (
            LoadedModel(executable.problem.platform, executable.weights)
            if beside is None
            else beside._model
        )
        active = self._load(name, self._named(name), executable.schedule)
        super().__init__(executable.problem, PlanSwitch(active))
        self.batch = self._reader.batch
        self._stacks = make_stacks([output.name for output in self.plan.outputs], self.batch)
        self.outputs = tuple(stack.name for stack in self._stacks)
        # For who forgets to close: ends the completing thread, which knows nothing of this object.
        weakref.finalize(self, self._plans.stop).atexit = False

    @blocks_shutdown
    def run(
        self,
        inputs: Inputs | None = None,
        /,
        *,
        deadline: float | None = None,
        state: State | None = None,
        **named: Any,
    ) -> list[Any]:
        """Run the model once.

        Parameters
        ----------
        inputs, named
            Arrays or tensors by input name; a name that is no Python identifier (``gpu_0/data_0``,
            and ``deadline``) goes into the mapping, or is written with underscores.
        deadline
            Seconds from now until it must be done.
        state
            Of a model that keeps one: what `new_state` gave, and no request in flight uses.

        Returns
        -------
        list
            The outputs, TVM tensors, in the model's order.

        Raises
        ------
        RunError
            If an input is missing, unknown, or of another shape or type; or a step fails.
        DeadlineError
            If it was not done in time.
        """
        given = merge_inputs(inputs, named)
        active = self._plans.current
        if state is None and (staged := active.staging.fill(given)) is not None:
            outputs = self._serve(staged.tensors, deadline)
            if self._plans.current is active:  # else another may have run it, which may keep inputs
                active.staging.give_back(staged)
            return outputs
        request = self._request(given, state)
        if state is None:
            outputs = self._serve(request.tensors, deadline)
        else:
            with _holding(state):
                outputs = self._serve(request.tensors, deadline, _SETTLING)
        return join_outputs(self._stacks, request.merged, outputs)

    def submit(
        self,
        inputs: Inputs | None = None,
        /,
        *,
        deadline: float | None = None,
        timeout: float | None = None,
        state: State | None = None,
        **named: Any,
    ) -> Pending:
        """Begin a run; returns as soon as there is room for it in the pipeline.

        Parameters
        ----------
        inputs, deadline, state, named
            As in `run`. The arrays must not be changed until the request is done: they may be used
            where they are.
        timeout
            How many seconds to wait for room while `depth` requests are in flight; None: as long
            as it takes.

        Returns
        -------
        Pending
            A future of the outputs.

        Raises
        ------
        RunError
            If an input does not fit.
        FullError
            If there was no room in time.
        """
        request = self._request(merge_inputs(inputs, named), state)
        return self._submit_pending(request, deadline, timeout, state)

    def map(self, batches: Iterable[Inputs]) -> Iterator[list[Any]]:
        """Run the model on many inputs, in a pipeline: every device works on another of them.

        Parameters
        ----------
        batches : inputs as `run` takes them; fetched while there is room in the pipeline (see
            `tvm_hetero.executor.streaming`). Arrays may be reused once the next is asked for.

        Yields
        ------
        list
            The outputs of each, in the order of the inputs, equal to those of `run`.

        Raises
        ------
        RunError
            As in `run`, in the place of the outputs that failed; what is in flight is cancelled.
        """
        requests = (self._request(inputs, None, copy=True) for inputs in batches)
        for request, outputs in stream(self._plans, requests):
            yield join_outputs(self._stacks, request.merged, outputs)

    async def run_async(
        self,
        inputs: Inputs | None = None,
        /,
        *,
        deadline: float | None = None,
        state: State | None = None,
        **named: Any,
    ) -> list[Any]:
        """Run the model once; the event loop goes on meanwhile.

        Parameters and errors are those of `run`. Cancelling the task cancels the request.
        """
        end = None if deadline is None else time.monotonic() + _checked(deadline)
        request = self._request(merge_inputs(inputs, named), state)
        submit = partial(self._try_submit, request, state)
        return await run_in_turn(self._plans.current.gates, submit, end)

    def amap(self, batches: AsyncIterable[Inputs] | Iterable[Inputs]) -> AsyncIterator[list[Any]]:
        """`map` for event loops: ``async for out in ex.amap(images)``."""
        return map_in_order(self.run_async, batches, lambda: self.depth)

    @blocks_shutdown
    def switch(self, plan: str | Variant, schedule: Schedule | None = None) -> None:
        """Let another plan of the same model take what comes from now on.

        What is in flight ends by the plan by which it began; no request is lost, worked on twice,
        or out of its order in `map`. Nothing is compiled and no weight copied: the plans share
        both (`tvm_hetero.executor.plan_switch`). While the old plan has something in flight there
        are the slots of both, so a switch waits until the one before is through; `await_drained`
        waits for its own end.

        Parameters
        ----------
        plan : a variant of the artifact by its name, or one that was made for the model.
        schedule : whose plan it is, for `schedule`; None: as before.

        Raises
        ------
        UsageError
            If there is no such variant, or the plan takes or gives other tensors than the one that
            runs, has batches of another size, or has its inputs in another memory.
        RunError
            If the executor is closed.
        """
        name, chosen = (plan, self._named(plan)) if isinstance(plan, str) else (OTHER, plan)
        check_fits(self.plan, chosen.plan)
        self._plans.switch(partial(self._load_next, name, chosen, schedule))
        self._apply_settings(self._native)  # what was set while the plan was loaded

    def await_drained(self) -> None:
        """Wait until nothing is in flight any more in the plan before the last `switch`."""
        self._plans.await_drained()

    @property
    def variant(self) -> str:
        """Which plan of the artifact takes what comes; `OTHER` for one that is not there."""
        return self._plans.current.name

    @property
    def schedule(self) -> Schedule:
        """Of the plan that takes what comes."""
        return self._plans.current.schedule

    @property
    def depth(self) -> int:
        """How many requests are in flight at most: that many keep every device busy."""
        return self._native.frames

    def close(self) -> None:
        """Stop the worker threads: what is in flight fails, and nothing can be run any more."""
        self._plans.close()

    def __reduce__(self) -> str:
        raise UsageError(
            "an executor has threads and cannot be pickled: pickle the path of its artifact, and "
            "load that where it is needed"
        )

    def _named(self, variant: str) -> Variant:
        if variant not in self._variants:
            raise UsageError(
                f"the artifact has no variant {variant!r}{nearest(variant, self._variants)}"
            )
        return self._variants[variant]

    def _load(
        self, name: str, variant: Variant, schedule: Schedule, before: ActivePlan | None = None
    ) -> ActivePlan:
        loaded = self._model.kernels  # those have been checked, and a switch is to take little
        fresh = [name for name, path in variant.libraries.items() if path not in loaded]
        check_processor(self._model.platform, fresh)
        check_cores(variant.plan)
        return ActivePlan.load(name, variant, schedule, self._model, before)

    def _load_next(
        self, name: str, variant: Variant, schedule: Schedule | None, before: ActivePlan
    ) -> ActivePlan:
        active = self._load(name, variant, schedule or before.schedule, before)
        try:
            self._apply_settings(active.native)
        except BaseException:
            active.close()  # nobody else knows it
            raise
        return active

    @blocks_shutdown
    def _request(self, inputs: Any, state: State | None, copy: bool = False) -> RequestTensors:
        request = self._reader.read(inputs, copy)
        self._state_rows.place(request.tensors, state)
        return request

    def _serve(self, tensors: Any, deadline: float | None, settle: float = 0.0) -> list[Any]:
        """The plan's outputs for its inputs, once."""
        allowed = NO_DEADLINE if deadline is None else _checked(deadline)
        outputs = self._plans.serve(tensors, allowed, allowed or FOR_EVER, settle)
        if outputs is None:
            raise _no_room_until(allowed)
        return outputs

    def _submit(
        self, request: RequestTensors, deadline: float | None, timeout: float | None
    ) -> Ticket:
        """The ticket of a request that has begun, and has a future."""
        allowed = NO_DEADLINE if deadline is None else _checked(deadline)
        patience = FOR_EVER if timeout is None else max(_seconds(timeout, "a timeout"), 0.0)
        if allowed and (timeout is None or allowed < patience):
            patience = allowed
        ticket = self._plans.submit(request.tensors, allowed, patience, notify=True)
        if ticket is not None:
            return ticket
        if allowed and patience == allowed:
            raise _no_room_until(allowed)
        raise FullError(
            f"the pipeline is full ({self.depth} requests in flight, its depth): take results "
            "first, or wait longer for room (timeout)"
        )

    def _submit_pending(
        self,
        request: RequestTensors,
        deadline: float | None,
        timeout: float | None,
        state: State | None,
    ) -> Pending:
        finish = partial(join_outputs, self._stacks, request.merged)
        if state is not None:
            state.acquire()
        at_end = None if state is None else state.release
        try:
            ticket = self._submit(request, deadline, timeout)
        except BaseException:
            if at_end is not None:
                at_end()
            raise
        active = ticket.active
        pending = Pending(active.native, finish, held=(self, request), at_end=at_end)
        active.completions.enter(pending, ticket.number)
        return pending

    def _try_submit(
        self,
        request: RequestTensors,
        state: State | None,
        timeout: float | None,
        deadline: float | None,
    ) -> Pending | None:
        """As `_submit_pending`; None if there is no room."""
        try:
            return self._submit_pending(request, deadline, timeout, state)
        except FullError:
            return None


@contextmanager
def _holding(state: State) -> Iterator[None]:
    """While a request works on a state, no other may."""
    state.acquire()
    try:
        yield
    finally:
        state.release()


def _no_room_until(deadline: float) -> DeadlineError:
    return DeadlineError(f"deadline: there was no room within {deadline:g} s")


def _checked(deadline: float) -> float:
    """A deadline in seconds, as C++ takes it: endless is none.

    Raises
    ------
    UsageError
        If it is no number.
    DeadlineError
        If it is past.
    """
    deadline = _seconds(deadline, "a deadline")
    if deadline <= 0:
        raise DeadlineError(f"deadline: it was past ({deadline:g} s) before the request began")
    return NO_DEADLINE if math.isinf(deadline) else deadline


def _seconds(value: float, what: str) -> float:
    """A number of seconds.

    Raises
    ------
    UsageError
        If it is none.
    """
    try:
        seconds = float(value) if not isinstance(value, str) else math.nan
    except (TypeError, OverflowError):  # a list; an integer beyond all floats
        seconds = math.nan
    if math.isnan(seconds):
        raise UsageError(f"expected {what} in seconds, got {quote(value)}")
    return seconds
