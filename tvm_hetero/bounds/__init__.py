"""Lower bounds: what no schedule of a problem can beat, whatever solver made it.

===============  =======================================================================
wing or file     what is in it
===============  =======================================================================
`core/`          linear programs whose value is a proof; placements of a module
`latency/`       critical paths, loads of the busiest device, and the program of paths,
                 copies, loads and memory: whole, by modules, nested, for a batch
`throughput/`    loads with copies, patterns of whole tasks in memories, chains
`memory/`        latency where memory binds: by modules, with prices of bytes and labels; paths
                 that no memory holds, in runs
`ladder`         the rungs for latency and throughput, from milliseconds to seconds
`energy_cost`    energy and cost
`integrality`    any bound, where all times are multiples of a unit
===============  =======================================================================

A wing imports those above it in this table alone; `views.arrays` has a problem in arrays.

Latency and the two that are spent obey all rules of the format; the bounds relax some of them
and are valid for every schedule: batches divided in any way, copies that block devices, colors,
memory (weights and final outputs only). All are lowered by 1e-12 of themselves for rounding.
"""

from __future__ import annotations

import math
import time

from tvm_hetero.bounds.core.linear import ROUNDING, WORK_A_SECOND
from tvm_hetero.bounds.core.time_is_up import Late, TimeIsUp, never
from tvm_hetero.bounds.energy_cost import spending
from tvm_hetero.bounds.integrality import round_up
from tvm_hetero.bounds.ladder import Rung, climb, climb_throughput
from tvm_hetero.bounds.latency.critical_path import limit_of, path_of
from tvm_hetero.bounds.latency.loads import load_of
from tvm_hetero.bounds.memory.path_runs import path_runs_bound
from tvm_hetero.bounds.memory.prices_and_labels import WORK_A_SECOND as WORK_ON_MEMORY
from tvm_hetero.bounds.memory.prices_and_labels import memory_bound
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.units import format_seconds
from tvm_hetero.views.arrays import Figures, figures_of
from tvm_hetero.views.instance import Instance, instance_of

__all__ = [
    "Rung",
    "bound_ladder",
    "check_latency_limit",
    "critical_path_bound",
    "first_bound",
    "latency_bound",
    "load_bound",
    "lower_bound",
    "round_up",
]


# What a bound beside a schedule may take if no one says, and at most, s.
_QUICK, _LONGEST = 1.0, 4.0
# Seconds that the whole ladder takes for each second of programs: several rungs have some.
_RUNGS = 3.5
# The programs of a bound within a solver: a fifth of a second or so in all.
_QUICKER = 0.1


def lower_bound(
    problem: Problem,
    upper: float = math.inf,
    seconds: float = _QUICK,
    late: Late = never,
) -> float:
    """A proven lower bound of the objective, in about a second.

    Parameters
    ----------
    problem : any problem that has a schedule.
    upper : a known value; the search stops when the bound has reached it.
    seconds : about what it may take, counted as work; the first rungs are always there, and more
        than four are not used.
    late : whether there is no time for another rung: a net. The first rung is always there.

    Returns
    -------
    s, s per batch, J per batch, or money per batch, by the objective.
    """
    rungs = bound_ladder(problem, min(seconds, _LONGEST) / _RUNGS, upper, late)
    return round_up(problem, max((rung.value for rung in rungs), default=0.0))


def first_bound(problem: Problem, late: Late = never) -> float:
    """What is known in milliseconds where memory binds, s; else 0: a search may end at it.

    0 too where it is `late` before that.
    """
    try:
        return path_runs_bound(instance_of(problem), late) * ROUNDING
    except TimeIsUp:
        return 0.0


def bound_ladder(
    problem: Problem,
    seconds: float = 1.0,
    upper: float = math.inf,
    late: Late = never,
) -> list[Rung]:
    """The bounds of a problem, the quickest first, each with its name, value and time.

    Parameters
    ----------
    problem : any problem that has a schedule.
    seconds : roughly what the programs may take. They stop after a fixed amount of counted
        work, so that the values (not the times) are the same in every run.
    upper : a known value; rungs above the one that reaches it are left out.
    late : whether there is no time for another rung.
    """
    figures = figures_of(instance_of(problem))
    work = round(seconds * WORK_A_SECOND)
    kind = problem.objective.kind
    if kind == "latency":
        rungs = list(climb(figures, work, upper, late))
        return rungs if late() else [*rungs, *_memory(figures, rungs, seconds, upper, late)]
    if kind == "throughput":
        return list(climb_throughput(figures, seconds, upper, late))
    began = time.perf_counter()
    value = spending(figures, work, late)
    return [Rung("spending", value, time.perf_counter() - began)]


def _memory(
    figures: Figures, rungs: list[Rung], seconds: float, upper: float, late: Late
) -> list[Rung]:
    """The rung for modules whose placements can be gone through (`memory`)."""
    best = max((rung.value for rung in rungs), default=0.0)
    if not any(figures.instance.memory_binds) or best >= upper * (1 - 1e-9):
        return []
    began = time.perf_counter()
    limit = upper if upper < math.inf else limit_of(figures, best)
    value = memory_bound(figures.instance, limit, round(seconds * WORK_ON_MEMORY), late)
    return [Rung("memory", value, time.perf_counter() - began)] if value > 0 else []


def check_latency_limit(problem: Problem) -> None:
    """Refuse a latency limit that no schedule can keep.

    Raises
    ------
    InfeasibleError
        If the lower bound of the latency exceeds the limit; says by how much.
    """
    limit = problem.objective.latency_limit
    if limit is None:
        return
    bound = latency_bound(instance_of(problem))
    if bound > limit:
        raise InfeasibleError(
            f"latency limit {format_seconds(limit)}: no schedule takes less than "
            f"{format_seconds(bound)}; raise the limit by at least {format_seconds(bound - limit)}",
            proven=True,
        )


def latency_bound(instance: Instance) -> float:
    """The best bound of the latency that takes about a fifth of a second, s.

    That of a divided instance is for its division alone.
    """
    work = round(_QUICKER * WORK_A_SECOND)
    return max(rung.value for rung in climb(figures_of(instance), work))


def critical_path_bound(instance: Instance) -> float:
    """The critical path that knows devices and copies, s."""
    return path_of(figures_of(instance)) * ROUNDING


def load_bound(instance: Instance) -> float:
    """The least load of the busiest device, s."""
    return load_of(figures_of(instance)) * ROUNDING
