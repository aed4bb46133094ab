"""Solvers by name: which there are, what they know, and how to add one of your own.

A solver is a function ``(problem, options) -> Schedule``. Whoever is to be asked goes through
`run_solver.solve`, which believes none of them.
"""

from __future__ import annotations

import inspect
from contextlib import suppress
from importlib import import_module
from typing import NamedTuple

from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.teams import nested
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.solvers.core.verified_call import Solver as Solver
from tvm_hetero.util.nearest import nearest
from tvm_hetero.views.instance import instance_of

# Objectives for which a solver knows devices that share cores.
_NO_TEAMS: tuple[str, ...] = ()
_LATENCY: tuple[str, ...] = ("latency",)
_LOADS: tuple[str, ...] = ("latency", "throughput")
_TIMES: tuple[str, ...] = ("latency", "energy", "cost")
_PRICES: tuple[str, ...] = ("energy", "cost")
_ALL: tuple[str, ...] = ("latency", "throughput", "energy", "cost")


class _Ours(NamedTuple):
    """A solver of ours.

    Attributes
    ----------
    module : where it is.
    bounds_itself : whether it holds its bound against the ladder itself.
    baseline : whether it is there to be compared with: the field knows it, and `auto` never asks
        it since it never found the best answer.
    teams : the objectives for which it knows teams (devices that share cores).
    shared_memory : whether it knows that teams of a node see one memory, where that is scarce.
    energies : whether it knows tasks with an energy of their own: it reckons with them, or lays out
        plans without looking at energy, and claims no bound.
    """

    module: str
    bounds_itself: bool = False
    baseline: bool = False
    teams: tuple[str, ...] = _NO_TEAMS
    shared_memory: bool = False
    energies: bool = False


# By name. Modules are imported on first use, since OR-tools takes a second to load.
_OURS = {
    "annealing": _Ours("tvm_hetero.solvers.search.annealing", teams=_LOADS, shared_memory=True),
    "auto": _Ours(
        "tvm_hetero.solvers.auto", bounds_itself=True, teams=_ALL, shared_memory=True, energies=True
    ),
    "batches": _Ours("tvm_hetero.solvers.batches.solver", teams=_LATENCY, shared_memory=True),
    "count-dp": _Ours("tvm_hetero.solvers.counting.solver"),
    "cpa": _Ours("tvm_hetero.solvers.lists.cpa", teams=_ALL, shared_memory=True, energies=True),
    "cpop": _Ours("tvm_hetero.solvers.lists.cpop", teams=_ALL, shared_memory=True, energies=True),
    "cpsat": _Ours(
        "tvm_hetero.solvers.cpsat.solver", teams=_ALL, shared_memory=True, energies=True
    ),
    "elements": _Ours(
        "tvm_hetero.solvers.throughput.whole_elements",
        teams=_ALL,
        shared_memory=True,
        energies=True,
    ),
    "exhaustive": _Ours("tvm_hetero.solvers.exhaustive.solver", teams=_LOADS, shared_memory=True),
    "genetic": _Ours(
        "tvm_hetero.solvers.search.genetic", baseline=True, teams=_LOADS, shared_memory=True
    ),
    "greedy": _Ours(
        "tvm_hetero.solvers.lists.greedy",
        baseline=True,
        teams=_ALL,
        shared_memory=True,
        energies=True,
    ),
    "heft": _Ours("tvm_hetero.solvers.lists.heft", teams=_ALL, shared_memory=True, energies=True),
    "hill-climbing": _Ours(
        "tvm_hetero.solvers.search.hill_climbing", teams=_LOADS, shared_memory=True
    ),
    "ideals-dp": _Ours("tvm_hetero.solvers.stage_dp.ideals_dp"),
    "linear-dp": _Ours("tvm_hetero.solvers.stage_dp.linear_dp"),
    "mcpa": _Ours("tvm_hetero.solvers.lists.mcpa", teams=_ALL, shared_memory=True, energies=True),
    "memory": _Ours("tvm_hetero.solvers.memory.solver"),
    "milp": _Ours("tvm_hetero.solvers.milp.solver", baseline=True, teams=_LOADS),
    "milp-split": _Ours("tvm_hetero.solvers.milp_split.solver", teams=_LATENCY),
    "one-width": _Ours(
        "tvm_hetero.solvers.lists.one_width", teams=_ALL, shared_memory=True, energies=True
    ),
    "one-pass": _Ours("tvm_hetero.solvers.lists.one_pass", teams=_TIMES, energies=True),
    "peft": _Ours("tvm_hetero.solvers.lists.peft", teams=_ALL, shared_memory=True, energies=True),
    "quickest": _Ours(
        "tvm_hetero.solvers.quickest", teams=_PRICES, shared_memory=True, energies=True
    ),
    "random-walk": _Ours(
        "tvm_hetero.solvers.search.random_walk", baseline=True, teams=_LOADS, shared_memory=True
    ),
    "segments": _Ours("tvm_hetero.solvers.memory.segments"),
    "shares": _Ours("tvm_hetero.solvers.throughput.element_sharing"),
    "single": _Ours(
        "tvm_hetero.solvers.lists.best_single", teams=_ALL, shared_memory=True, energies=True
    ),
    "stages": _Ours("tvm_hetero.solvers.stages.solver"),
    "throughput": _Ours("tvm_hetero.solvers.throughput.solver"),
    "work-area": _Ours(
        "tvm_hetero.solvers.lists.work_area", teams=_ALL, shared_memory=True, energies=True
    ),
}
_REGISTERED: dict[str, Solver] = {}


def register(name: str, solver: Solver) -> None:
    """Add a solver under a name of your own.

    Raises
    ------
    UsageError
        If the name is taken.
    """
    if name in _OURS or name in _REGISTERED:
        raise UsageError(f"there is a solver {name!r} already; choose another name")
    _REGISTERED[name] = solver


def names() -> tuple[str, ...]:
    """The names of all solvers, sorted."""
    return tuple(sorted({*_OURS, *_REGISTERED}))


def is_baseline(name: str) -> bool:
    """Whether the solver is there to be compared with, and `auto` never asks it."""
    check_name(name)
    return name in _OURS and _OURS[name].baseline


def bounds_itself(name: str) -> bool:
    """Whether the solver holds its bound against the ladder itself."""
    return name in _OURS and _OURS[name].bounds_itself


def makes_one_plan(name: str) -> bool:
    """Whether the solver lays out one plan and does not search."""
    return name in _OURS and ".lists." in _OURS[name].module


def check_name(name: str) -> None:
    """Refuse the name of no solver: before costs are measured for it, not after.

    Raises
    ------
    UsageError
        If there is no such solver; the nearest is suggested.
    """
    if name not in names():
        raise UsageError(f"there is no solver {name!r}{nearest(name, names())}")


def knows_teams(name: str, problem: Problem) -> bool:
    """Whether a solver knows devices that share cores, if the problem has any, and their memory.

    Those that were registered from outside are asked: the judge looks at what they answer.
    """
    if not problem.platform.cliques or name in _REGISTERED:
        return True
    if not _plans_teams(name, problem.objective):
        return False
    return _OURS[name].shared_memory or not _is_memory_shared(problem)


def _is_memory_shared(problem: Problem) -> bool:
    """Whether teams see one memory that may be too small for what they may put there."""
    with suppress(InfeasibleError):
        return bool(problem.platform.shared_memories) and instance_of(problem).memories_shared
    return False


def _plans_teams(name: str, objective: Objective) -> bool:
    return name in _REGISTERED or objective.kind in _OURS[name].teams


def check_teams(platform: Platform, objective: Objective, name: str) -> None:
    """Refuse what a solver cannot do where devices share cores; no costs are needed for that.

    Raises
    ------
    SolverError
        If the solver does not know teams, or nobody does for such an objective.
    """
    if not platform.cliques:
        return
    some = ", ".join(repr(platform.names[d]) for d in platform.cliques[0][:2])
    if objective.contiguous:
        raise SolverError(
            f"contiguous stages on devices that share cores ({some}) are not supported; leave "
            "'contiguous' out, or the teams"
        )
    if objective.kind == "throughput" and not nested(platform.devices, platform.cliques):
        raise SolverError(
            "throughput on teams is supported where of two devices that share a core one holds "
            "all cores of the other; make them so, or leave some out"
        )
    if not _plans_teams(name, objective):
        able = ", ".join(other for other in names() if _plans_teams(other, objective))
        raise SolverError(
            f"solver {name!r} does not know devices that share cores ({some}) for "
            f"{objective.kind}; use one of {able}, or give each device its own cores"
        )


def check_shared_memory(problem: Problem, name: str) -> None:
    """Refuse what a solver cannot do where teams see a memory that may be too small.

    Raises
    ------
    SolverError
        If the solver does not know such memories.
    """
    if not knows_teams(name, problem):
        able = ", ".join(other for other in names() if knows_teams(other, problem))
        raise SolverError(
            f"solver {name!r} does not know a memory that several teams of cores see, and the "
            f"limits of this platform's may be too small; use one of {able}, or leave 'memory' out"
        )


def knows_energies(name: str, problem: Problem) -> bool:
    """Whether a solver knows tasks with an energy of their own, if they count.

    Those that were registered from outside are asked: the judge looks at what they answer.
    """
    if problem.objective.kind != "energy" or not problem.has_energies:
        return True
    return name in _REGISTERED or _OURS[name].energies


def check_energies(problem: Problem, name: str) -> None:
    """Refuse what a solver cannot do where tasks have energies of their own.

    Raises
    ------
    SolverError
        If the solver would reckon with the watts of devices instead.
    """
    if not knows_energies(name, problem):
        able = ", ".join(other for other in names() if knows_energies(other, problem))
        raise SolverError(
            f"solver {name!r} knows the watts of devices, and not energies of single tasks; use "
            f"one of {able}, or leave 'energy' out of the tasks"
        )


def describe(name: str) -> str:
    """The first sentence of what a solver's file says about itself."""
    if name in _REGISTERED:
        text = inspect.getdoc(_REGISTERED[name]) or ""
    else:
        check_name(name)
        text = import_module(_OURS[name].module).__doc__ or ""
    first = " ".join(text.strip().split("\n\n")[0].split())
    return first.split(". ")[0].rstrip(".")


def solver_of(name: str) -> Solver:
    """The solver of that name; UsageError if there is none."""
    check_name(name)
    if name in _REGISTERED:
        return _REGISTERED[name]
    solver: Solver = import_module(_OURS[name].module).solve
    return solver
