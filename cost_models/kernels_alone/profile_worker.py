"""The child process that runs kernels: ``python -m
tvm_hetero.cost_models.kernels_alone.profile_worker``.

It answers questions (lines of JSON, see `tvm_hetero.processes.child_server`): ``compile`` builds
some kernels (a second core's share of that work), ``open`` pins it to a device's cores and loads
compiled kernels, ``measure`` runs one of them, and ``compare`` runs several implementations of
one, in turns, and says which of them compute something else; ``check`` says whether a kernel for a
GPU computes what one for the CPU does. A kernel may take this process down
with it; the parent starts another one. For a board that is reached by RPC, ``open`` connects to it
and takes the kernels there; they run on the board and are timed by it.

How a time is taken. One repeat is one call, timed by TVM's time evaluator (which waits for a
GPU). Before each repeat the parameters named ``cold`` are thrown out of the CPU's caches, and
nothing else is: see `tvm_hetero.cost_models.profiled` for why. When it has been repeated enough
is for `tvm_hetero.cost_models.kernels_alone.sampling` to say.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_hetero.cost_models.kernels_alone.kernel_values import (
    find_difference,
    is_finite,
    sample,
    signed_sample,
)
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy, next_repeats, still_in
from tvm_hetero.processes.child_server import serve
from tvm_hetero.rpc_devices.session import RpcDeviceSession

CPU = 1
_PREPARE = "tvm_hetero.profile.prepare"
# How many times as slow a first call may be; both meet cold caches and fresh pages.
_HOPELESS = 20.0
# How often a kernel on a GPU meets the same values.
_CHECKS = 2
# One thread for each core, in the order of the list (TVM's ThreadGroup::kSpecifyOneCorePerThread).
_ONE_CORE_PER_THREAD = -2
# (seed, shape, dtype) -> data
Draw = Callable[[int, Sequence[int], str], "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class KernelRun:
    """One compiled function and how it is to be run (see
    `tvm_hetero.cost_models.kernels_alone.bench`)."""

    function: str
    parameters: Sequence[dict[str, Any]]
    cold: Sequence[int]
    effort: SamplingPolicy


@dataclass(frozen=True)
class WorkerCall:
    """What a function left in its arguments, and what that took (s)."""

    outputs: list[np.ndarray[Any, Any]]
    seconds: float


@dataclass
class ProfileSession:
    """What ``open`` has set up."""

    board: RpcDeviceSession | None = None
    modules: list[Any] = field(default_factory=list)
    on_host: list[Any] = field(default_factory=list)
    device: Any = None
    cold: list[int] = field(default_factory=list)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer one question of the parent; ``lost`` says that a board is gone."""
        try:
            return self._answer(question)
        except Exception:
            if self.board is not None and not self.board.alive():
                return {"lost": "the connection was closed"}
            raise

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        match question["ask"]:
            case "compile":
                return compile_library(question["module"], question["library"])
            case "prepare":
                import tvm  # noqa: F401  # which takes seconds that shall not count as a board's

                return {"ok": True}
            case "open":
                if "remote" in question:
                    self.open_board(question)
                else:
                    self.open(question["libraries"], question["cores"], question["device"])
                self.open_host(question.get("host_libraries", ()))
                return {"ok": True}
            case "measure":
                return {"times": self.measure(_run(question, question["function"]))}
            case "compare":
                functions = question["functions"]
                return self.compare([_run(question, name) for name in functions])
            case "check":
                return {"wrong": self.check(_run(question, question["function"]), question["host"])}
        raise ValueError(f"unknown question {question['ask']!r}")

    def open(self, libraries: Sequence[str], cores: Sequence[int], device: Sequence[int]) -> None:
        """Pin this process, then load TVM and the compiled kernels."""
        os.sched_setaffinity(0, cores)
        import tvm

        # First of all: a pool that TVM makes by itself would pin this thread to core 0.
        configure = tvm.get_global_func("runtime.config_threadpool")
        configure(_ONE_CORE_PER_THREAD, len(cores), [str(core) for core in cores])
        tvm.register_global_func(_PREPARE, self._prepare, override=True)
        self.device = tvm.runtime.device(device[0], device[1])
        self.modules = [tvm.runtime.load_module(path) for path in libraries]

    def open_board(self, question: dict[str, Any]) -> None:
        """Connect to a board, and take the compiled kernels there."""
        self.board = RpcDeviceSession(question)
        self.device = self.board.device
        self.modules = [self.board.load(path) for path in question["libraries"]]

    def open_host(self, libraries: Sequence[str]) -> None:
        """Load kernels for this machine's CPU."""
        import tvm

        self.on_host = [tvm.runtime.load_module(path) for path in libraries]

    def measure(self, run: KernelRun) -> list[float]:
        """Run one kernel on random data; seconds of each repeat."""
        args = self._arguments(run)
        times: list[float] = []
        while repeat := next_repeats(times, run.effort):
            times += self._repeats(run, args, repeat)
        return times

    def compare(self, runs: Sequence[KernelRun]) -> dict[str, Any]:
        """Run implementations of one kernel in turns, those that compute what the first does.

        Returns
        -------
        ``times``, seconds of each repeat of each; ``wrong``, None or what is wrong with it.
        """
        args = self._arguments(runs[0])
        calls = [self._first_call(run) for run in runs]
        wrong = [None, *(find_difference(calls[0].outputs, call.outputs) for call in calls[1:])]
        sound = [i for i, reason in enumerate(wrong) if reason is None]
        # One that is slower by far is not called again: it may take a thousand times as long.
        hopeless = [i for i in sound if calls[i].seconds > _HOPELESS * calls[0].seconds]
        times = [[calls[i].seconds] if i in hopeless else [] for i in range(len(runs))]
        sound = [i for i in sound if i not in hopeless]
        while turn := _turn(times, sound, runs[0].effort):
            for i in turn:
                times[i] += self._repeats(runs[i], args, 1)
        return {"times": times, "wrong": wrong}

    def check(self, run: KernelRun, host: str) -> str | None:
        """What is wrong with a kernel on the device, beside the CPU's function `host`.

        Each kind of values is taken several times: what is wrong by chance may be right once.
        Values of both signs are no test where a CPU makes NaN or infinities of them: what becomes
        of those in a maximum, or as whole numbers, is up to each processor.
        """
        import tvm

        function = self._function(run)[run.function]
        right = next(m for m in self.on_host if m.implements_function(host))[host]
        for draw in (signed_sample, sample):
            args = self._arguments(run, draw, tvm.cpu())
            right(*args)
            expected = [arg.numpy() for arg in args]
            if draw is signed_sample and not all(map(is_finite, expected)):
                continue
            for _ in range(_CHECKS):
                found = self._arguments(run, draw)
                function(*found)
                self.device.sync()
                values = [arg.numpy() for arg in found]
                if wrong := find_difference(expected, values, rounded=True):
                    return wrong
        return None

    def _function(self, run: KernelRun) -> Any:
        return next(m for m in self.modules if m.implements_function(run.function))

    def _arguments(self, run: KernelRun, draw: Draw = sample, device: Any = None) -> list[Any]:
        import tvm

        arrays = [draw(i, p["shape"], p["dtype"]) for i, p in enumerate(run.parameters)]
        for array, parameter in zip(arrays, run.parameters, strict=True):
            if "value" in parameter:
                array.fill(parameter["value"])
        where = self.device if device is None else device
        return [tvm.runtime.tensor(array, where) for array in arrays]

    def _first_call(self, run: KernelRun) -> WorkerCall:
        """Call a function once; all arguments afterwards: which are outputs need not be known."""
        args = self._arguments(run, signed_sample)
        function = self._function(run)[run.function]
        start = time.perf_counter()
        function(*args)
        self.device.sync()
        seconds = time.perf_counter() - start
        return WorkerCall([arg.numpy() for arg in args], seconds)

    def _repeats(self, run: KernelRun, args: Sequence[Any], repeat: int) -> list[float]:
        self.cold = list(run.cold) if self.device.dlpack_device_type() == CPU else []
        evaluate = self._function(run).time_evaluator(
            run.function,
            self.device,
            number=1,
            repeat=repeat,
            f_preproc=_PREPARE if self.cold else "",
        )
        return [float(t) for t in evaluate(*args).results]

    def _prepare(self, *args: Any) -> None:
        """Throw the cold parameters out of the caches (TVM's function spares its first one)."""
        import tvm

        flush = tvm.get_global_func("cache_flush_cpu_non_first_arg")
        flush(args[0], *[args[i] for i in self.cold])


def compile_library(module: str, library: str) -> dict[str, Any]:
    """Compile the functions of a file that `compile_kernels` wrote."""
    from tvm_hetero.cost_models.kernels_alone.compile_kernels import build_file

    build_file(module, library)
    return {"ok": True}


def _turn(
    times: Sequence[Sequence[float]], sound: Sequence[int], effort: SamplingPolicy
) -> list[int]:
    """Whose turn it is: those that are right, not lost, and not repeated enough."""
    alive = {sound[i] for i in still_in([times[i] for i in sound])}
    wanted = any(next_repeats(times[i], effort) for i in alive)
    return [i for i in sound if i in alive] if wanted else []


def _run(question: dict[str, Any], function: str) -> KernelRun:
    parameters, cold = question["parameters"], question["cold"]
    return KernelRun(function, parameters, cold, SamplingPolicy(**question["effort"]))


if __name__ == "__main__":
    serve(ProfileSession().answer)
