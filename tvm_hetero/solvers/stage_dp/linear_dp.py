"""Contiguous stages along one order of the tasks: any graph, never far from the best stages.

The stages are intervals of a topological order (`stage_dp` over its prefixes, the DPL of
Tarnawski et al. 2020). Two orders are tried: the graph's own and a depth-first one, which keeps
branches together. Long orders are cut at every so many tasks only. The order is a choice, so
nothing is proven unless the graph admits but one.
"""

from __future__ import annotations

import math

import numpy as np

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.stage_dp.stage_dp import best_plan, check_kind
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.views.array_types import BoolArray
from tvm_hetero.views.ideals import Blocks, IdealFamily, contract
from tvm_hetero.views.instance import Instance, instance_of

# Positions of an order at which a stage may end: 2,000 take about a second.
_MOST_CUTS = 1_000
# Positions times tensors, which go into tables: 80 MB each, and seconds for 100,000 tasks, where
# a thousand positions took minutes and gigabytes.
_MOST_ENTRIES = 10_000_000


def solve(problem: Problem, options: Options) -> Schedule:
    """Place contiguous stages along a topological order.

    Raises
    ------
    UsageError
        If the objective is not throughput.
    InfeasibleError
        If no interval of either order fits (memory, links).
    """
    check_kind(problem, "linear-dp")
    instance = instance_of(problem)
    placement = linear_plan(instance)
    if placement is None:
        raise InfeasibleError(
            "linear-dp: no stages along the order of the tasks keep within memory and links; "
            "add memory"
        )
    executions, copies = write_period(instance, placement)
    return make_schedule(problem, "linear-dp", executions, copies, seed=options.seed)


def linear_plan(
    instance: Instance, most: float = math.inf, deadline: float = math.inf
) -> list[int] | None:
    """The best placement that the orders give; None if they give none of at most `most` s.

    Parameters
    ----------
    deadline : of `now`; after it the second order is left out.

    Raises
    ------
    SolverError
        If there are too many ways to use the devices, or no time for the first order.
    """
    found: list[tuple[float, list[int]]] = []
    for order in orders_of(instance):
        family = IdealFamily(instance, order, _prefixes(order, len(instance.tensors)), nested=True)
        try:
            placement, _ = best_plan(instance, family, most, deadline)
        except SolverError:
            if not found:
                raise
            break
        if placement is not None:
            found.append((exact_value(instance, placement), placement))
    return min(found, key=lambda pair: pair[0])[1] if found else None


def orders_of(instance: Instance) -> tuple[Blocks, Blocks]:
    """Two orders of the blocks of stages: depth first, and by their distance from the sources."""
    blocks = contract(instance, instance.terminals)
    return blocks, _breadth_first(blocks)


def _prefixes(blocks: Blocks, tensors: int) -> BoolArray:
    """Prefixes of the order of the blocks, evenly spread where there are many."""
    most = max(1, min(_MOST_CUTS, _MOST_ENTRIES // max(1, tensors)))
    step = max(1, math.ceil(len(blocks) / most))
    ends = [*range(0, len(blocks), step), len(blocks)]
    return np.arange(len(blocks))[None, :] < np.array(ends)[:, None]


def _breadth_first(blocks: Blocks) -> Blocks:
    """The same blocks by their distance from the sources."""
    depth: list[int] = []
    for row in blocks.before:
        depth.append(1 + max((depth[a] for a in row), default=-1))
    order = sorted(range(len(blocks)), key=lambda b: (depth[b], b))
    place = {b: i for i, b in enumerate(order)}
    return Blocks(
        tuple(blocks.members[b] for b in order),
        tuple(tuple(sorted(place[a] for a in blocks.before[b])) for b in order),
    )
