"""Contiguous stages by the C++ annealer, which knows circles between devices (`Loads::AddFlow`)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tvm_hetero.errors import SolverError
from tvm_hetero.instance import Instance
from tvm_hetero.solvers.options import Options

# Steps (some 30 ns on a shared core) a second of the time limit, and what more was not seen to
# help; temperature in parts of the value: of 0.001, 0.01, 0.03 and 0.1 this was best on 200 tasks
# in series and parallel, on 3 devices and on 28.
_STEPS, _MOST_STEPS, _HEAT = 2_000_000, 100_000_000, 0.02


def annealed(
    instance: Instance, plan: Sequence[int], options: Options, deadline: float
) -> list[int] | None:
    """A placement by the C++ annealer; None without the library, or if it finds nothing valid.

    Parameters
    ----------
    deadline : of `time.monotonic`.
    """
    from tvm_hetero.solvers.native import NativeSearch

    try:
        run = NativeSearch(instance).anneal_loads(
            plan,
            work=max(1, int(min(_MOST_STEPS, options.time_limit * _STEPS))),
            seed=options.seed,
            heat=_HEAT,
            deadline=max(0.01, deadline - time.monotonic()),
        )
    except SolverError:
        return None
    return list(run.placement) if run.feasible else None
