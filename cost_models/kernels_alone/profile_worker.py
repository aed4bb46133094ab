"""The child process that runs kernels: ``python -m
tvm_hetero.cost_models.kernels_alone.profile_worker``.

It answers questions (lines of JSON, see `tvm_hetero.processes.child_server`): ``compile`` builds
some kernels (a second core's share of that work), ``open`` pins it to a device's cores and loads
compiled kernels, ``measure`` runs one of them, and ``compare`` runs several implementations of
one, in turns, and says which of them compute something else. A kernel may take this process down
with it; the parent starts another one. For a board that is reached by RPC, ``open`` connects to it
and takes the kernels there; they run on the board and are timed by it.

How a time is taken. One repeat is one call, timed by TVM's time evaluator (which waits for a
GPU). Before each repeat the parameters named ``cold`` are thrown out of the CPU's caches, and
nothing else is: see `tvm_hetero.cost_models.profiled` for why. When it has been repeated enough
is for `tvm_hetero.cost_models.kernels_alone.sampling` to say.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy, next_repeats, still_in
from tvm_hetero.processes.child_server import serve
from tvm_hetero.rpc_devices.session import RpcDeviceSession

CPU = 1
# Values of a tensor that are drawn; a larger one repeats them. Drawing the 100 million of VGG-19's
# first dense layer, round by round, took longer than running it. A prime: no row equals the next.
_DISTINCT = 1_048_573
_PREPARE = "tvm_hetero.profile.prepare"
# How many times as slow a first call may be; both meet cold caches and fresh pages.
_HOPELESS = 20.0
# By how much of the largest value two right outputs may differ, by bytes of a value: sums in
# another order, of up to some ten thousand values.
_TOLERANCE = {1: 0.3, 2: 0.03, 4: 1e-4}
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


def sample(seed: int, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    """Data to run a kernel on: the same for the same arguments.

    Floats are between 0.1 and 1: zeros would hide denormals and let hardware cut corners, and
    negative ones have no logarithm. Integers are 0, since most are indices, and kernels refuse
    those out of bounds; truth values are random.
    """
    if dtype == "bool":
        return np.random.default_rng(seed).random(shape) < 0.5
    kind = np.dtype(_numpy_name(dtype))
    if kind.kind in "iu":
        return np.zeros(shape, kind)
    size = math.prod(shape)
    values = _drawn(seed)[: min(size, _DISTINCT)].astype(kind)
    return np.resize(values, shape) if size else values.reshape(shape)


@lru_cache(maxsize=16)
def _drawn(seed: int) -> np.ndarray[Any, Any]:
    """Values between 0.1 and 1. Drawn once: kernels are measured in rounds, each of which draws."""
    values = np.random.default_rng(seed).random(_DISTINCT, np.float32)
    values = values * np.float32(0.9) + np.float32(0.1)
    values.flags.writeable = False
    return values


def signed_sample(seed: int, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    """Data to compare implementations on: as `sample`, with both signs, and bytes that differ.

    What a relu cuts off must be seen. Square roots and logarithms then are NaN here and there, of
    one implementation as of the other. 8-bit integers are quantities; wider ones may be indices.
    """
    values = sample(seed, shape, dtype)
    generator = np.random.default_rng([seed, 1])
    if values.dtype.kind == "b":
        return values
    if values.dtype.kind in "iu":
        wide = values.dtype.itemsize > 1
        return values if wide else generator.integers(0, 100, shape).astype(values.dtype)
    signs = generator.random(min(values.size, _DISTINCT), np.float32) < 0.5
    return np.where(np.resize(signs, shape), -values, values).astype(values.dtype)


def _numpy_name(dtype: str) -> Any:
    if dtype in {"float16", "float32", "float64"} or dtype.startswith(("int", "uint")):
        return dtype
    import ml_dtypes

    return getattr(ml_dtypes, dtype)


@dataclass
class ProfileSession:
    """What ``open`` has set up."""

    board: RpcDeviceSession | None = None
    modules: list[Any] = field(default_factory=list)
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
            case "open" if "remote" in question:
                self.open_board(question)
                return {"ok": True}
            case "open":
                self.open(question["libraries"], question["cores"], question["device"])
                return {"ok": True}
            case "measure":
                return {"times": self.measure(_run(question, question["function"]))}
            case "compare":
                functions = question["functions"]
                return self.compare([_run(question, name) for name in functions])
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

    def _function(self, run: KernelRun) -> Any:
        return next(m for m in self.modules if m.implements_function(run.function))

    def _arguments(self, run: KernelRun, draw: Draw = sample) -> list[Any]:
        import tvm

        arrays = [draw(i, p["shape"], p["dtype"]) for i, p in enumerate(run.parameters)]
        for array, parameter in zip(arrays, run.parameters, strict=True):
            if "value" in parameter:
                array.fill(parameter["value"])
        return [tvm.runtime.tensor(array, self.device) for array in arrays]

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


def find_difference(
    expected: Sequence[np.ndarray[Any, Any]], found: Sequence[np.ndarray[Any, Any]]
) -> str | None:
    """What is wrong with `found`; None where it is `expected`, but for rounding."""
    for i, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one.dtype.kind in "iub":
            if not np.array_equal(one, other):
                return f"tensor {i} differs in {np.count_nonzero(one != other)} values"
            continue
        # float32 knows all float16 and bfloat16, and numpy's functions know float32.
        a, b = (x if x.dtype.itemsize > 4 else x.astype(np.float32) for x in (one, other))
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            return f"tensor {i} has values that are not finite"
        largest = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
        off = np.max(np.abs(a - b), initial=0.0, where=np.isfinite(a))
        if off > _TOLERANCE[min(one.dtype.itemsize, 4)] * largest:
            return f"tensor {i} is off by {off:.3g}, its largest value is {largest:.3g}"
    return None


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
