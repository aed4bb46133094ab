"""The C++ executor, as Python sees it.

The library is built by ``pip install -e .`` (or ``make``) into ``_lib`` beside this file and is
loaded when the first executor is made. What a plan is stands in
``include/tvm_hetero/plan.h``; it is checked in C++, by whose words it is refused.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import json
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import ArtifactError, FormatError, PlatformError, RunError

if TYPE_CHECKING:
    from tvm_ffi import Tensor

# Executors that live, threads that are inside a call of one, and whether it is too late for another
# call: for `_close_all`.
_EXECUTORS: weakref.WeakSet[NativeExecutor] = weakref.WeakSet()
_CALLERS: set[int] = set()
_ENDING = threading.Event()

LIBRARY = Path(__file__).with_name("_lib") / "libtvm_hetero_runtime.so"


@functools.cache
def load_library() -> ctypes.CDLL:
    """Load the executor's library, once a process.

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
            f"the executor's library {LIBRARY} is not there: build it with `make`, or with "
            "`pip install -e . --no-build-isolation` in the repository (this needs g++)"
        )
    try:
        return ctypes.CDLL(str(LIBRARY))
    except OSError as error:
        raise ArtifactError(
            f"the executor's library {LIBRARY} does not load ({error}): it was built for another "
            "machine or another apache-tvm-ffi; build it again with `make`"
        ) from error


def create(plan: Mapping[str, Any]) -> NativeExecutor:
    """Make an executor; its workers start, and sleep until the first run.

    Parameters
    ----------
    plan
        A ``tvm-hetero/plan/1`` document.

    Raises
    ------
    FormatError
        If the plan is malformed, fills a slot never or twice, or would deadlock.
    PlatformError
        If a device or core that it names is not there.
    ArtifactError
        If the library is not built.
    """
    load_library()
    import tvm_ffi

    make = tvm_ffi.get_global_func("tvm_hetero.create_executor")
    try:
        module = make(json.dumps(plan))
    except ValueError as error:
        raise FormatError(str(error)) from None
    except RuntimeError as error:
        raise PlatformError(str(error)) from None
    return NativeExecutor(plan, module)


class NativeExecutor:
    """Runs one plan; made by `create`.

    One thread at a time may use it: while a run is on, every call from another thread is refused.
    Inputs and constants stay until replaced. Outputs stay until the next run starts, and a tensor
    that was got stays what it is for as long as it is held.

    A stream runs batches one behind the other in a pipeline: `open_stream`, then `push` and `pop`
    in any way, then `close_stream`. While one is open, everything else is refused. A step that
    fails closes it and drops what is in flight.

    Attributes
    ----------
    plan : what it runs.
    stages : for each step, how many batches later than the first steps it works in a stream.
    frames : how many batches a stream holds at most.
    """

    def __init__(self, plan: Mapping[str, Any], module: Any) -> None:
        self.plan = plan
        self._inputs = _indices(plan["inputs"])
        self._constants = _indices(plan["constants"])
        self._outputs = _indices(plan["outputs"])
        # Each look-up by name makes a function: do it once.
        self._set_functions = module["set_functions"]
        self._set_constant = module["set_constant"]
        self._set_input = module["set_input"]
        self._run = module["run"]
        self._run_repeated = module["run_repeated"]
        self._get_output = module["get_output"]
        self._trace = module["trace"]
        self._filled_slots = module["filled_slots"]
        self._stop = module["stop"]
        self._run_stream = module["run_stream"]
        self._open_stream = module["open_stream"]
        self._push = module["push"]
        self._pop = module["pop"]
        self._close_stream = module["close_stream"]
        self.frames = int(module["frames"]())
        self.stages = tuple(int(stage) for stage in module["stages"]())
        self._streaming = False
        _EXECUTORS.add(self)

    def set_functions(self, functions: Sequence[Callable[..., Any] | None]) -> None:
        """Give each step its function.

        Parameters
        ----------
        functions
            One for each step, ``None`` for copies. A function takes the tensors of its step's
            in-slots and returns the tensor, or the sequence of tensors, of its out-slots.

        Raises
        ------
        RunError
            If there are too few or too many, or one is missing.
        """
        _call(self._set_functions, list(functions))

    def set_constant(self, which: int | str, tensor: Tensor) -> None:
        """Fill a constant, given by its index or name.

        Raises
        ------
        RunError
            If there is no such constant, or the tensor is on another device, or strided.
        """
        _call(self._set_constant, _index(self._constants, which, "constant"), tensor)

    def set_input(self, which: int | str, tensor: Tensor) -> None:
        """Fill an input, given by its index or name.

        Raises
        ------
        RunError
            If there is no such input, or the tensor's type, shape or device is not the plan's.
        """
        _call(self._set_input, _index(self._inputs, which, "input"), tensor)

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
        return float(_call(self._run))

    def run_repeated(self, count: int) -> list[float]:
        """Run the plan ``count`` times in a row, timed in C++; returns the seconds of each run."""
        return [float(seconds) for seconds in _call(self._run_repeated, count)]

    def run_stream(self, count: int) -> list[float]:
        """Run ``count`` batches in a pipeline on the inputs that are set; outputs are dropped.

        Returns
        -------
        list
            When each batch had ended, in seconds since the start of the first.

        Raises
        ------
        RunError
            As in `run`; the text names the batch too (from 0).
        """
        return [float(seconds) for seconds in _call(self._run_stream, count)]

    def open_stream(self) -> None:
        """Start a stream; the outputs of the last run go.

        Raises
        ------
        RunError
            If constants or functions are missing, or the executor is in use.
        """
        _call(self._open_stream)
        self._streaming = True

    def push(self, inputs: Sequence[Tensor]) -> bool:
        """Begin a batch; returns at once.

        Parameters
        ----------
        inputs
            All inputs in the plan's order, not to be changed until the batch has ended.

        Returns
        -------
        bool
            False if the stream is full: nothing was done, `pop` first. Empty batches, which a `pop`
            sends to push others through when nothing else comes, take room for a while.

        Raises
        ------
        RunError
            If no stream is open, an input does not fit (the stream stays open), or a step failed.
        """
        return bool(_call(self._push, list(inputs)))

    def pop(self) -> list[Tensor]:
        """Wait for the oldest batch in flight; returns its outputs, in the plan's order.

        Raises
        ------
        RunError
            If no stream is open, nothing is in flight, or a step failed.
        """
        return list(_call(self._pop))

    def close_stream(self) -> None:
        """End the stream, if one is open; what is in flight is dropped."""
        _call(self._close_stream)
        self._streaming = False

    def __del__(self) -> None:
        # C++ joins the workers with the interpreter's lock held; a step in Python needs that lock.
        if getattr(self, "_streaming", False):
            with contextlib.suppress(RuntimeError):
                self._close_stream()

    def get_output(self, which: int | str) -> Tensor:
        """Output of the last run, given by its index or name.

        Raises
        ------
        RunError
            If there is no such output, or the last run failed, or there was none yet.
        """
        return _call(self._get_output, _index(self._outputs, which, "output"))

    def trace(self) -> list[tuple[float, float]]:
        """Start and end of each step of the plan in the last run.

        Returns
        -------
        list
            Pairs of seconds since the start of that run; NaN for a step that was skipped. After a
            stream: in its last full period (each step once, of different batches), since the start
            of the first of them.
        """
        times = [float(seconds) for seconds in _call(self._trace)]
        return list(zip(times[::2], times[1::2], strict=True))

    def filled_slots(self) -> list[int]:
        """Slots made by steps that hold a tensor now: after a run, those of outputs alone."""
        return [int(slot) for slot in _call(self._filled_slots)]

    def close(self) -> None:
        """Cut short a run of another thread, which gets a RunError, and refuse further ones.

        Not needed to free anything: that happens when the last reference goes.
        """
        self._stop()


def _indices(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    return {row["name"]: index for index, row in enumerate(rows)}


def _index(indices: Mapping[str, int], which: int | str, kind: str) -> int:
    if not isinstance(which, str):
        return which
    if which not in indices:
        known = ", ".join(repr(name) for name in indices) or "none"
        raise RunError(f"there is no {kind} {which!r}; the plan has: {known}")
    return indices[which]


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call into C++; what it throws becomes a RunError (Ctrl-C stays what it is)."""
    caller = threading.get_ident()
    _CALLERS.add(caller)
    try:
        if _ENDING.is_set():
            raise RunError("the interpreter is ending: no executor can be used any more")
        return function(*arguments)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        raise RunError(str(error)) from error
    finally:
        _CALLERS.discard(caller)


@atexit.register
def _close_all(limit: float = 10.0) -> None:
    """End the runs of daemon threads before the interpreter ends; wait ``limit`` seconds at most.

    A thread that comes back from C++ to an interpreter that has ended is unwound by Python, and
    tvm-ffi's wrapper of a call aborts the process on that (with executors or without).
    """
    _ENDING.set()
    executors = list(_EXECUTORS)
    for executor in executors:
        executor.close()
    end = time.monotonic() + limit
    while _CALLERS - {threading.get_ident()} and time.monotonic() < end:
        time.sleep(0.001)
    # The workers of a stream that was left open may be inside a function of Python.
    for executor in executors:
        with contextlib.suppress(RuntimeError):
            executor._close_stream()
