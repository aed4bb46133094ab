"""The parent's end of a measurement: one device with compiled kernels, ready to run them.

A kernel that crashes or hangs takes the child process with it; the next kernel gets a new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

from tvm_hetero.cost_models.kernels_alone.compile_kernels import Compiled
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy, spread
from tvm_hetero.cost_models.store import KernelKey
from tvm_hetero.cost_models.store.identity import worker_cores
from tvm_hetero.devices.target import dl_device, remote_device
from tvm_hetero.errors import ProfileError
from tvm_hetero.kernels.tir.index_values import values_of
from tvm_hetero.platform.devices import HOST_KINDS, Device, is_local_cpu
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.implementation_choice import Timing
from tvm_hetero.processes.child_process import Worker, WorkerLost
from tvm_hetero.rpc_devices.endpoint_text import (
    SECONDS_PER_BYTE,
    lost_text,
    rpc_device_question,
    unreachable_text,
)

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

WORKER = "tvm_hetero.cost_models.kernels_alone.profile_worker"
# Importing TVM and loading a library takes a second; on a busy machine many.
_OPEN_SECONDS = 120.0
# What a contest takes at most beside its calls: it makes data, and the machine may be busy.
_CONTEST_SECONDS = 10.0


class NotMeasured(Exception):
    """One kernel has no time on one device; the text says why."""


class KernelBench:
    """A device with compiled kernels, ready to run them; starts a new child when one is lost.

    `worker` is a child that was started already, and is the bench's to end from now on; `more`
    compiles what `ensure` finds missing; `host` has kernels for this machine's CPU (`check`).
    """

    def __init__(
        self,
        platform: Platform,
        device: Device,
        compiled: Compiled,
        effort: SamplingPolicy,
        worker: Worker | None = None,
        more: Callable[[Mapping[KernelKey, PrimFunc]], Compiled] | None = None,
        host: Compiled | None = None,
    ) -> None:
        self._device = device
        self._compiled = compiled
        self._host = host if host is not None else Compiled()
        self._effort = effort
        self._worker = worker
        self._more = more
        self._opened = False
        self._open_question: dict[str, Any] = {
            "ask": "open",
            "libraries": [str(path) for path in compiled.libraries],
            "host_libraries": [str(path) for path in self._host.libraries],
            "cores": list(worker_cores(device)),
            "device": list(dl_device(platform, device)),
        }
        if device.rpc is not None:
            self._open_question |= {
                "device": list(remote_device(device)),
                **rpc_device_question(device),
            }

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._drop()

    def measure(self, key: KernelKey, func: PrimFunc, cold: Sequence[int]) -> Timing:
        """Run one kernel; raises `NotMeasured` with the reason if that gives no time."""
        answer = self._ask(
            {"ask": "measure", "function": self._symbol(key), **self._how(func, cold)},
            self._effort.time_limit + self._moving(func),
        )
        return timing_of(answer.get("times"))

    def compare(
        self,
        keys: Sequence[KernelKey],
        func: PrimFunc,
        cold: Sequence[int],
        expected: float | None = None,
    ) -> list[Timing | str]:
        """Run implementations of one kernel in turns.

        Parameters
        ----------
        keys, func, cold : the implementations, one of them, and which arguments are cold.
        expected : seconds that one of them takes, where that is known: no one waits longer than
            a thousand times that (and some) for the others.

        Returns
        -------
        For each of `keys` its time, or why it is refused: its output is not that of the first.

        Raises
        ------
        NotMeasured
            If that does not work: one of them crashed, hung, or is not compiled.
        """
        question = {
            "ask": "compare",
            "functions": [self._symbol(key) for key in keys],
            **self._how(func, cold),
        }
        patience = self._effort.time_limit
        if expected is not None:
            patience = min(patience, _CONTEST_SECONDS + 1000 * expected)
        # Data goes to a board for the turns and for a first call of each, and comes back from that.
        answer = self._ask(question, patience + (1 + 2 * len(keys)) * self._moving(func))
        times, wrong = answer.get("times"), answer.get("wrong")
        if not isinstance(times, list) or not isinstance(wrong, list):
            raise NotMeasured(f"its answer is {answer!r:.80}")
        pairs = list(zip(times, wrong, strict=True))
        if len(pairs) != len(keys):
            raise NotMeasured(f"it has {len(pairs)} times for {len(keys)} implementations")
        return [timing_of(own) if reason is None else str(reason) for own, reason in pairs]

    def check(self, host: KernelKey, key: KernelKey, func: PrimFunc) -> str | None:
        """What is wrong with a kernel; None if it computes what its `host` twin does on a CPU.

        Raises
        ------
        NotMeasured
            If one of them is not compiled, or crashed, hung or failed on the way.
        """
        question = {
            "ask": "check",
            "function": self._symbol(key),
            "host": _symbol_in(self._host, host),
            **self._how(func, ()),
        }
        # Data goes to a board and comes back for each of four runs.
        answer = self._ask(question, self._effort.time_limit + 8 * self._moving(func))
        wrong = answer.get("wrong")
        return None if wrong is None else str(wrong)

    def ensure(self, key: KernelKey, func: PrimFunc) -> None:
        """Compile a kernel that is not there yet; a child that is given it starts anew."""
        if key in self._compiled.symbols or key in self._compiled.failed or self._more is None:
            return
        found = self._more({key: func})
        self._compiled.libraries.extend(found.libraries)
        self._compiled.symbols.update(found.symbols)
        self._compiled.failed.update(found.failed)
        self._open_question["libraries"] = [str(path) for path in self._compiled.libraries]
        self._drop()

    def _symbol(self, key: KernelKey) -> str:
        return _symbol_in(self._compiled, key)

    def _how(self, func: PrimFunc, cold: Sequence[int]) -> dict[str, Any]:
        effort = asdict(self._effort)
        return {"parameters": parameters(func), "cold": list(cold), "effort": effort}

    def _moving(self, func: PrimFunc) -> float:
        """Seconds that a function's data may take to a board, over a slow network."""
        if self._device.rpc is None:
            return 0.0
        import tvm_ffi

        tensors = parameters(func)
        nbytes = sum(math.prod(t["shape"]) * tvm_ffi.dtype(t["dtype"]).itemsize for t in tensors)
        return SECONDS_PER_BYTE * nbytes

    def _ask(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        worker = self._ready()
        try:
            answer = worker.ask(question, seconds)
        except WorkerLost as lost:
            self._drop()
            if lost.signal == "SIGILL":
                raise ProfileError(
                    f"device {self._device.name!r}: this CPU lacks instructions of the target "
                    f"{dict(self._device.target or {})}; correct its mcpu, or use "
                    'cost_model="analytical"'
                ) from None
            raise NotMeasured(str(lost)) from None
        except BaseException:
            self._drop()  # interrupted: the child is still running the kernel
            raise
        if "lost" in answer:
            self._drop()
            raise ProfileError(lost_text(self._device, answer["lost"]))
        if "error" in answer:
            if self._device.kind not in HOST_KINDS:
                self._drop()  # a GPU answers each call with its first error from then on
            raise NotMeasured(f"it cannot be run: {answer['error']}")
        return answer

    def _ready(self) -> Worker:
        if self._worker is not None and self._opened:
            return self._worker
        if self._worker is None:
            self._worker = Worker(WORKER, host_only=is_local_cpu(self._device))
        try:
            patience = _OPEN_SECONDS
            if self._device.rpc is not None:
                self._worker.ask({"ask": "prepare"}, _OPEN_SECONDS)
                patience = self._device.rpc.timeout
            answer = self._worker.ask(self._open_question, patience)
        except WorkerLost as lost:
            answer = {"error": str(lost)}
        except BaseException:
            self._drop()
            raise
        if "error" in answer and self._device.rpc is not None:
            self._drop()
            raise ProfileError(unreachable_text(self._device, answer["error"]))
        if "error" in answer:
            self._drop()
            raise ProfileError(
                f"device {self._device.name!r}: the process that measures kernels cannot be "
                f"started: {answer['error']}"
            )
        self._opened = True
        return self._worker

    def _drop(self) -> None:
        self._opened = False
        if self._worker is not None:
            self._worker.close()
            self._worker = None


def _symbol_in(compiled: Compiled, key: KernelKey) -> str:
    if key in compiled.failed:
        raise NotMeasured(f"it cannot be compiled: {compiled.failed[key]}")
    return compiled.symbols[key]


def parameters(func: PrimFunc) -> list[dict[str, Any]]:
    """Shape and type of each tensor that a function takes, and what fills it if it says so.

    Raises
    ------
    NotMeasured
        If a parameter is no tensor of a fixed shape: there is no data to run it on.
    """
    result: list[dict[str, Any]] = []
    values = values_of(func)
    for i, parameter in enumerate(func.params):
        try:
            shape = [int(extent) for extent in parameter.ty.shape]
            result.append({"shape": shape, "dtype": str(parameter.ty.dtype)})
        except (AttributeError, TypeError):
            raise NotMeasured(f"parameter {i} is no tensor of a fixed shape") from None
        if i in values:
            result[-1]["value"] = values[i]
    return result


def timing_of(times: object) -> Timing:
    """The smallest of the times that a child answered; refuses anything that is no time."""
    if not isinstance(times, list) or not times:
        raise NotMeasured(f"its times are {times!r:.80}")
    for time in times:
        if not isinstance(time, float) or not math.isfinite(time) or time <= 0:
            raise NotMeasured(f"a run took {time!r} s, which is no time")
    return Timing(min(times), spread(times))
