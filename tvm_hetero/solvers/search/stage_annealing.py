"""Contiguous stages by the C++ annealers.

Where only work loads a device, stages of tasks and an order of devices are annealed, which have no
cycles (src/search/anneal_stages.cc); else placements, with a look at cycles (`Loads::AddFlow`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.instance import Instance

# Steps (some 30 ns on a shared core) a second of the time limit: for something to beat, and where
# nothing better comes after. 200 tasks in series and parallel on 28 devices: 9.24e-5 s after 30
# million, 8.95e-5 after 100 and 8.84e-5 after 300, where three runs of 100 million gave 9.06e-5;
# these were placements, as are the temperatures (stages take cooler ones by themselves).
SHORT, LONG = 2_000_000, 20_000_000
# Temperatures in parts of the value: of 0.001, 0.01, 0.03 and 0.1 the first was best there; the
# second keeps most of a plan that is good already, where the first loses it.
WARM, COLD = 0.03, 0.003
_MOST_STEPS = 1_000_000_000


def anneal_stages(
    instance: Instance,
    plan: Sequence[int],
    options: Options,
    deadline: float,
    steps: int,
    heat: float = WARM,
) -> list[int] | None:
    """A placement by the C++ annealer; None without the library, or if it finds nothing valid.

    Parameters
    ----------
    deadline : of `now`.
    steps : of the annealer, for each second of the time limit.
    heat : the first temperature, in parts of the value.
    """
    from tvm_hetero.solvers.native.library import NativeSearch

    try:
        run = NativeSearch(instance).anneal_loads(
            plan,
            work=max(1, min(_MOST_STEPS, int(options.time_limit * steps))),
            seed=options.seed,
            heat=heat,
            deadline=max(0.01, deadline - now()),
        )
    except SolverError:
        return None
    return list(run.placement) if run.feasible else None
