"""The C++ executor, as Python sees it.

The library is built by ``pip install -e .`` (or ``make``) into ``tvm_hetero/_lib`` and is
loaded when the first executor is made. What a plan is stands in
``include/tvm_hetero/plan.h``; it is checked in C++, by whose words it is refused.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvm_hetero.errors import ArtifactError, FormatError, PlatformError, RunError
from tvm_hetero.executor.native_calls import (
    EXECUTORS,
    THROWN,
    blocks_shutdown,
    call,
    call_for_list,
    ours,
)
from tvm_hetero.libinfo import LIBRARIES
from tvm_hetero.plan.format import native_text, plan_from_dict
from tvm_hetero.plan.model import Plan
from tvm_hetero.util.library_errors import explain_load_error

if TYPE_CHECKING:
    from tvm_ffi import Tensor

_FUNCTIONS = (
    *("set_functions", "set_library", "set_constant", "check_numerics", "profile_kernels"),
    *("submit", "serve", "wait", "take", "cancel", "forget", "next_done"),
    *("set_input", "run", "run_repeated", "run_stream", "get_output"),
    *("trace", "waits", "run_by", "kernel_times", "filled_slots", "allocations"),
    *("watch", "take_watched", "retire", "stop", "shutdown"),
)

LIBRARY = LIBRARIES / "libtvm_hetero_runtime.so"


@functools.cache
def load_library() -> ctypes.CDLL:
    """Load the executor's library, once a process.

    Kernels of libraries that are loaded from then on take their workspaces from it.

    Raises
    ------
    ArtifactError
        If it is not built, or was built for other libraries than those installed.
    """
    # Both have to be there first: tvm_ffi, which the library is linked with, and TVM, whose thread
    # pool the workers configure as they start.
    importlib.import_module("tvm")
    if not LIBRARY.exists():
        raise ArtifactError(
            f"the executor's library {LIBRARY} is not there: install g++, and build it: in the "
            "repository with `make`; of a package that was installed without a compiler with "
            "`pip install --no-cache-dir --force-reinstall --no-deps` and its name"
        )
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise ArtifactError(
            "the executor: "
            + explain_load_error(
                LIBRARY, error, "build it for this machine and its apache-tvm-ffi with `make setup`"
            )
        ) from error
    importlib.import_module("tvm_ffi").get_global_func("tvm_hetero.register_kernel_context")()
    return library


def create(
    plan: Plan, before: NativeExecutor | None = None, text: str | None = None
) -> NativeExecutor:
    """Make an executor; its workers start, and sleep until the first run.

    Parameters
    ----------
    before : the one on the same cores that is to be retired: a worker begins nothing before that
        one's workers on its cores are through with what they have in flight.
    text : `native_text(plan)`, of who has made it already.

    Raises
    ------
    FormatError
        If the plan is malformed, fills a slot never or twice, or would deadlock.
    PlatformError
        If a device or core that it names is not there.
    ArtifactError
        If the library is not built.
    """
    return NativeExecutor(plan, _create_module(text or native_text(plan), before))


def create_from_text(text: str) -> NativeExecutor:
    """`create` for a plan as the JSON text of its document, which C++ checks as it stands."""
    module = _create_module(text)
    return NativeExecutor(plan_from_dict(json.loads(text)), module)


def _create_module(text: str, before: NativeExecutor | None = None) -> Any:
    load_library()
    import tvm_ffi

    make = "create_executor" if before is None else "create_executor_after"
    further = () if before is None else (before.module,)
    try:
        return tvm_ffi.get_global_func(f"tvm_hetero.{make}")(text, *further)
    except ValueError as error:
        raise FormatError(str(error)) from None
    except RuntimeError as error:
        raise PlatformError(str(error)) from None


class NativeExecutor:
    """Runs one plan; made by `create`.

    Requests, for any thread at any time: `submit`, `wait`, `take`, and `serve`, which is all three;
    `cancel`, `forget`, `next_done`, `close`. Up to `frames` of them are in flight; each has inputs
    and outputs of its own, and one that fails takes nothing from the others.

    Measuring, for one thread at a time (a second one is refused): `set_input`, `run`,
    `run_repeated`, `run_stream`, `get_output`, `trace`, `waits`, `run_by`, `kernel_times`,
    `filled_slots`, and what is set once. Inputs and constants stay until replaced. Outputs stay
    until the next run starts, and a tensor that was got stays what it is for as long as it is held.

    Errors of requests and runs are `RunError`, or as said: `NumericsError`, `DeadlineError`,
    `concurrent.futures.CancelledError`.

    Attributes
    ----------
    plan : what it runs.
    module : of tvm-ffi's, whose functions it calls.
    stages : for each step, the largest number of changes of worker on any way to it.
    frames : how many requests are in flight at most.
    """

    def __init__(self, plan: Plan, module: Any) -> None:
        self.plan = plan
        self.module = module
        self._inputs = _indices(given.name for given in plan.inputs)
        self._constants = _indices(constant.name for constant in plan.constants)
        self._outputs = _indices(output.name for output in plan.outputs)
        self._has_one_output = len(plan.outputs) == 1
        # Each look-up by name makes a function: do it once.
        self._functions = {name: module[name] for name in _FUNCTIONS}
        self._serve = self._functions["serve"]
        self.frames = int(module["frames"]())
        self.stages = tuple(int(stage) for stage in module["stages"]())
        EXECUTORS.add(self)

    def _do(self, name: str, *arguments: Any) -> Any:
        return call(self._functions[name], *arguments)

    def _list(self, name: str, *arguments: Any) -> list[Any]:
        return call_for_list(self._functions[name], *arguments)

    # ------------------------------------------------------------------------ set once

    def set_functions(self, functions: Sequence[Callable[..., Any] | None]) -> None:
        """Give each call step its function.

        Parameters
        ----------
        functions
            One for each step, ``None`` for copies and kernels. A function takes the tensors of its
            step's in-slots and returns the tensor, or the sequence of tensors, of its out-slots.

        Raises
        ------
        RunError
            If there are too few or too many, one is missing, or a request is in flight.
        """
        self._do("set_functions", list(functions))

    def set_library(self, worker: int, library: Any) -> None:
        """Look up the kernels of a worker's steps, by their names in the plan, in a module.

        Raises
        ------
        RunError
            If one is not there (the text names it), or a request is in flight.
        """
        self._do("set_library", worker, library)

    def set_constant(self, which: int | str, tensor: Tensor) -> None:
        """Fill a constant, given by its index or name.

        Raises
        ------
        RunError
            If there is no such constant, the tensor is on another device, strided, or of another
            type than the plan says, or a request is in flight.
        """
        self._do("set_constant", _index(self._constants, which, "constant"), tensor)

    def check_numerics(self, on: bool) -> None:
        """Let requests fail (`NumericsError`) at the first kernel whose result is not finite."""
        self._do("check_numerics", on)

    def profile_kernels(self, on: bool) -> None:
        """Measure each kernel of the requests that begin from now on: see `kernel_times`."""
        self._do("profile_kernels", on)

    # ------------------------------------------------------------------------ requests

    def submit(
        self,
        inputs: Sequence[Tensor],
        deadline_s: float = 0.0,
        wait_s: float = -1.0,
        notify: bool = False,
    ) -> int:
        """Begin a request, in the order in which callers came.

        Parameters
        ----------
        inputs
            All inputs in the plan's order, not to be changed until the request is done.
        deadline_s
            Seconds from now after which it fails; 0 or less for never.
        wait_s
            How long to wait while `frames` requests are in flight: 0 not at all, less than 0 as
            long as it takes.
        notify
            Whether `next_done` is to tell of its end.

        Returns
        -------
        int
            The request's number, from 1 on; 0 if there was no room in time.

        Raises
        ------
        DeadlineError
            If that passed before there was room.
        RunError
            If an input does not fit, something is not set, or the executor is closed.
        """
        return int(self._do("submit", list(inputs), float(deadline_s), float(wait_s), notify))

    @blocks_shutdown
    def serve(
        self,
        inputs: Sequence[Tensor],
        deadline_s: float = 0.0,
        wait_s: float = -1.0,
        settle_s: float = 0.0,
    ) -> list[Tensor] | None:
        """`submit`, `wait` and `take` in one call, for who has nothing to do meanwhile.

        Parameters
        ----------
        inputs, deadline_s, wait_s
            As in `submit`.
        settle_s
            How long to wait, when it has ended before its time, for the kernel that still runs.

        Returns
        -------
        list
            The outputs, in the plan's order; None if there was no room in time. An interrupt
            (Ctrl-C) cancels the request.

        Raises
        ------
        RunError, NumericsError, DeadlineError, concurrent.futures.CancelledError
            As `submit` and `take`.
        """
        try:  # not by `call`: small models end before it has begun
            served = self._serve(inputs, deadline_s, wait_s, settle_s)
        except THROWN as error:
            raise ours(error) from error
        if self._has_one_output:  # which comes without a list around it
            return None if served is None else [served]
        return None if served is None else list(served)

    def wait(self, request: int, seconds: float = -1.0) -> bool:
        """Wait until a request is done, or has passed its deadline.

        Returns
        -------
        bool
            False if that took longer than ``seconds`` (less than 0: as long as it takes).

        Raises
        ------
        RunError
            If there is no such request.
        """
        return bool(self._do("wait", request, float(seconds)))

    def take(self, request: int) -> list[Tensor]:
        """Outputs of a request that is done, in the plan's order; its number is forgotten.

        Raises
        ------
        RunError
            If a step of it failed (the text names step, worker and task), if the executor was
            closed meanwhile, if it is not done, or if there is no such request.
        NumericsError
            If numerics are checked and a kernel wrote a value that is not finite.
        DeadlineError
            If it was not done in time.
        concurrent.futures.CancelledError
            If it was cancelled.
        """
        return self._list("take", request)

    def cancel(self, request: int) -> bool:
        """End a request at once; what is running of it is not waited for, the rest is skipped.

        Returns
        -------
        bool
            False if it was done already.
        """
        return bool(self._do("cancel", request))

    def forget(self, request: int) -> None:
        """Let go of a request: no one will take it. If it is not done, it is cancelled."""
        self._do("forget", request)

    def next_done(self, seconds: float = -1.0) -> int:
        """Wait for the end of any request that was submitted with ``notify``.

        Returns
        -------
        int
            Its number, each once. 0 if there was none in time (less than 0: no limit), or if the
            executor is closed and all ends have been told.
        """
        return int(self._do("next_done", float(seconds)))

    # ------------------------------------------------------------------------ measuring

    def set_input(self, which: int | str, tensor: Tensor) -> None:
        """Fill an input of `run` and its like, given by its index or name.

        Raises
        ------
        RunError
            If there is no such input, or the tensor's type, shape or device is not the plan's.
        """
        self._do("set_input", _index(self._inputs, which, "input"), tensor)

    def run(self) -> float:
        """Run the plan once.

        Returns
        -------
        float
            Seconds from the start to the end of the last step.

        Raises
        ------
        RunError
            If a step fails (the text names it and its worker; the next run works again), if inputs,
            constants or functions are missing, or if another thread is in a run.
        """
        return float(self._do("run"))

    def run_repeated(self, count: int) -> list[float]:
        """Run the plan ``count`` times in a row, timed in C++; returns the seconds of each run."""
        return [float(seconds) for seconds in self._list("run_repeated", count)]

    def run_stream(self, count: int) -> list[float]:
        """Run ``count`` batches, `frames` of them in flight, on the inputs that are set.

        Returns
        -------
        list
            When the first, second, ... of them had ended, in seconds since the start.

        Raises
        ------
        RunError
            As in `run`.
        """
        return [float(seconds) for seconds in self._list("run_stream", count)]

    def get_output(self, which: int | str) -> Tensor:
        """Output of the last run, given by its index or name.

        Raises
        ------
        RunError
            If there is no such output, or the last run failed, or there was none yet.
        """
        return self._do("get_output", _index(self._outputs, which, "output"))

    def trace(self) -> list[tuple[float, float]]:
        """Start and end of each step of the plan in the batch that ended last.

        Returns
        -------
        list
            Pairs of seconds since the start of the batch's first step; NaN for a step that was
            skipped. After `run_stream`: of a batch in the middle of it.
        """
        times = [float(seconds) for seconds in self._list("trace")]
        return list(zip(times[::2], times[1::2], strict=True))

    def waits(self) -> list[float]:
        """Seconds that the worker of each step waited right before it, with nothing else to do.

        Of the same batch as `trace`; time without any request in flight does not count.
        """
        return [float(seconds) for seconds in self._list("waits")]

    def run_by(self) -> list[int]:
        """The worker that ran each step of that batch; -1 for a step that was skipped.

        It may be another than the step's own where workers are alike.
        """
        return [int(worker) for worker in self._list("run_by")]

    def kernel_times(self) -> list[float]:
        """Seconds of each call of each kernels step, in the plan's order, of the same batch.

        NaN for what was skipped, and for all if the batch was not profiled (`profile_kernels`).
        """
        return [float(seconds) for seconds in self._list("kernel_times")]

    def filled_slots(self) -> list[int]:
        """Slots made by steps that hold a tensor now: after a run, those of outputs alone.

        What requests in flight hold does not count.
        """
        return [int(slot) for slot in self._list("filled_slots")]

    def allocations(self) -> int:
        """How many tensors were allocated since those that the plan foresees were, at load."""
        return int(self._do("allocations"))

    def watch(self, capacity: int) -> None:
        """Keep what each step of the last `capacity` requests takes, for `take_watched`; 0: none.

        Some microseconds a step: threads ask the kernel for the time that they had on a core.
        """
        self._do("watch", capacity)

    def take_watched(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Requests that were watched and not yet taken, the oldest first.

        Returns
        -------
        array of float64, [requests, 2 + 6 * steps]
            Seconds of `time.monotonic`: when the request began and ended; for each step
            when it started and ended, how long its worker had waited before, who ran it, how long
            its thread had a core, and how long it wanted one. NaN (-1) for what was skipped.
        """
        table: np.ndarray[Any, np.dtype[np.float64]] = self._do("take_watched").numpy()
        return table

    # ------------------------------------------------------------------------ the end

    def retire(self, seconds: float = -1.0) -> bool:
        """Refuse further requests (`PlanRetired`), and wait until none is in flight.

        Returns
        -------
        bool
            False if that took longer than ``seconds`` (less than 0: as long as it takes).
        """
        return bool(self._do("retire", float(seconds)))

    def close(self) -> None:
        """Fail all requests in flight ("closed: ...") and refuse further ones; waits for nothing.

        Not needed to free anything: that happens when the last reference goes.
        """
        self._functions["stop"]()

    def join(self) -> None:
        """`close`, and wait for the ends of the threads (in a step of ours: without the wait)."""
        self._functions["shutdown"]()

    def __del__(self) -> None:
        # C++ joins the workers with the interpreter's lock held; a step in Python needs that lock.
        # So join them here: a call lets go of it.
        try:  # noqa: SIM105  (at the interpreter's end this module's names may be gone)
            self.join()
        except (AttributeError, RuntimeError):
            pass


def _indices(names: Iterable[str]) -> dict[str, int]:
    return {name: index for index, name in enumerate(names)}


def _index(indices: Mapping[str, int], which: int | str, kind: str) -> int:
    if not isinstance(which, str):
        return which
    if which not in indices:
        known = ", ".join(repr(name) for name in indices) or "none"
        raise RunError(f"there is no {kind} {which!r}; the plan has: {known}")
    return indices[which]
