"""The child process that runs kernels: ``python -m tvm_hetero.cost_models.profile_worker``.

It answers two questions (lines of JSON, see `tvm_hetero.cost_models.child`): ``open`` pins it to
a device's cores and loads compiled kernels, ``measure`` runs one of them. A kernel may take this
process down with it; the parent starts another one.

How a time is taken. One repeat is one call, timed by TVM's time evaluator (which waits for a
GPU). Before each repeat the parameters named ``cold`` are thrown out of the CPU's caches, and
nothing else is: see `tvm_hetero.cost_models.profiled` for why. When it has been repeated enough
is for `tvm_hetero.cost_models.effort` to say.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_hetero.cost_models.child import serve
from tvm_hetero.cost_models.effort import Effort, next_repeats

CPU = 1
_PREPARE = "tvm_hetero.profile.prepare"
# One thread for each core, in the order of the list (TVM's ThreadGroup::kSpecifyOneCorePerThread).
_ONE_CORE_PER_THREAD = -2


@dataclass
class Session:
    """What ``open`` has set up."""

    modules: list[Any] = field(default_factory=list)
    device: Any = None
    cold: list[int] = field(default_factory=list)

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """Answer one question of the parent."""
        if question["ask"] == "open":
            self.open(question["libraries"], question["cores"], question["device"])
            return {"ok": True}
        times = self.measure(
            question["function"],
            question["parameters"],
            question["cold"],
            Effort(**question["effort"]),
        )
        return {"times": times}

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

    def measure(
        self,
        function: str,
        parameters: Sequence[dict[str, Any]],
        cold: Sequence[int],
        effort: Effort,
    ) -> list[float]:
        """Run one kernel on random data; seconds of each repeat."""
        import tvm

        module = next(m for m in self.modules if m.implements_function(function))
        args = [
            tvm.runtime.tensor(sample(i, p["shape"], p["dtype"]), self.device)
            for i, p in enumerate(parameters)
        ]
        self.cold = list(cold) if self.device.dlpack_device_type() == CPU else []
        times: list[float] = []
        while repeat := next_repeats(times, effort):
            evaluate = module.time_evaluator(
                function,
                self.device,
                number=1,
                repeat=repeat,
                f_preproc=_PREPARE if self.cold else "",
            )
            times += [float(t) for t in evaluate(*args).results]
        return times

    def _prepare(self, *args: Any) -> None:
        """Throw the cold parameters out of the caches (TVM's function spares its first one)."""
        import tvm

        flush = tvm.get_global_func("cache_flush_cpu_non_first_arg")
        flush(args[0], *[args[i] for i in self.cold])


def sample(seed: int, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    """Data to run a kernel on: the same for the same arguments.

    Floats are between 0.1 and 1: zeros would hide denormals and let hardware cut corners, and
    negative ones have no logarithm. Integers are 0, since most are indices and kernels do not
    check their bounds; truth values are random.
    """
    generator = np.random.default_rng(seed)
    if dtype == "bool":
        return generator.random(shape) < 0.5
    kind = np.dtype(_numpy_name(dtype))
    if kind.kind in "iu":
        return np.zeros(shape, kind)
    values = generator.random(shape, np.float32)
    return (values * np.float32(0.9) + np.float32(0.1)).astype(kind)


def _numpy_name(dtype: str) -> Any:
    if dtype in {"float16", "float32", "float64"} or dtype.startswith(("int", "uint")):
        return dtype
    import ml_dtypes

    return getattr(ml_dtypes, dtype)


if __name__ == "__main__":
    serve(Session().answer)
