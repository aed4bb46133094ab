"""Contiguous stages by dynamic programming over all ideals: exact where they are few.

The method is in `stage_dp`, the ideals in `tvm_hetero.views.ideals`. A chain of n tasks has n + 1
ideals, however many skip edges run along it; GPT and ResNet are of that kind. Where branches run
side by side their ideals multiply, and past `MOST_IDEALS` this solver gives up. Where a value is
known (of a start, or of the DP along one order) they are listed up to `MOST_LISTED`, and those that
no chain of that value can have are not counted (`prune_by_value`).

With contiguous stages as the objective the value over all ideals is a bound of the problem. For
throughput without them the plan is merely a plan: the devices may do better out of line.
"""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.core.options import Options, make_schedule
from tvm_hetero.solvers.stage_dp.linear_dp import linear_plan
from tvm_hetero.solvers.stage_dp.prune_by_value import prune
from tvm_hetero.solvers.stage_dp.stage_dp import StageChain, best_plan, check_kind
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.solvers.timing.steady_period import write_period
from tvm_hetero.views.array_types import BoolArray
from tvm_hetero.views.ideals import Blocks, IdealFamily, contract
from tvm_hetero.views.instance import Instance, instance_of

MOST_IDEALS, MOST_LISTED = 6_000, 100_000


def solve(problem: Problem, options: Options) -> Schedule:
    """Place contiguous stages by the DP over ideals.

    Raises
    ------
    UsageError
        If the objective is not throughput.
    InfeasibleError
        If no contiguous stages keep within memory.
    SolverError
        If the graph has too many ideals, or links make the best chain impossible.
    """
    check_kind(problem, "ideals-dp")
    instance = instance_of(problem)
    known = _known(instance, options)
    family = all_ideals(instance, known=known)
    placement, chain = best_plan(instance, family, known)
    if chain.value == math.inf and options.start is None:
        raise InfeasibleError(
            "ideals-dp: no contiguous stages keep within memory (weights, and every tensor made "
            "on or copied to a device); add memory or a device"
        )
    bound = stage_bound(problem, family, chain)
    if placement is None and options.start is not None:
        return make_schedule(
            problem,
            "ideals-dp",
            options.start.executions,
            options.start.copies,
            lower_bound=bound,
            seed=options.seed,
        )
    if placement is None:
        raise SolverError(
            "ideals-dp: no links lead along the best chain of stages, or copies that pass through "
            "a device do not fit there"
        )
    executions, copies = write_period(instance, placement)
    return make_schedule(
        problem, "ideals-dp", executions, copies, lower_bound=bound, seed=options.seed
    )


def _known(instance: Instance, options: Options) -> float:
    """The value of the start, or what the DP along one order finds; inf if that is nothing."""
    if options.start is not None:
        return options.start.value
    with suppress(SolverError):
        plan = linear_plan(instance)
        return math.inf if plan is None else exact_value(instance, plan)
    return math.inf


def stage_bound(problem: Problem, family: IdealFamily, chain: StageChain) -> float:
    """What the best chain of all ideals proves of a problem, s.

    A batch that is divided over devices may form other stages, so one element only.
    """
    if problem.batch > 1 or not problem.objective.contiguous:
        return 0.0
    return chain.bound(family)


def all_ideals(
    instance: Instance,
    most: int = MOST_IDEALS,
    *,
    known: float = math.inf,
    listed: int = MOST_LISTED,
) -> IdealFamily:
    """All ideals of the graph of blocks that a chain of stages of the known value may have.

    Parameters
    ----------
    most : ideals that the family may have.
    known : a value, s; inf: none, and all ideals are in the family.
    listed : ideals that may be listed to find them.

    Raises
    ------
    SolverError
        If there are more than that.
    """
    blocks = contract(instance, instance.terminals)
    if known == math.inf:
        return IdealFamily(instance, blocks, _enumerate(blocks, most), nested=False)
    # As `best_plan` looks for it: so much above it, lest rounding loses it.
    found = prune(instance, blocks, _enumerate(blocks, max(most, listed)), known * (1 + 1e-9))
    if len(found) > most:
        raise SolverError(
            f"ideals-dp: {len(found)} ideals are left of this graph where {most} are taken on (its "
            "branches run side by side)"
        )
    return found


def _enumerate(blocks: Blocks, most: int) -> BoolArray:
    """All ideals by rising size, each found once: by adding a block to one that is smaller."""
    needs = [sum(1 << a for a in row) for row in blocks.before]
    after: list[list[int]] = [[] for _ in blocks.members]
    for b, row in enumerate(blocks.before):
        for a in row:
            after[a].append(b)
    sources = tuple(b for b, row in enumerate(blocks.before) if not row)
    # For every ideal the blocks that could come next.
    level: dict[int, tuple[int, ...]] = {0: sources}
    found = [0]
    for _ in range(len(blocks)):
        bigger: dict[int, tuple[int, ...]] = {}
        for ideal, free in level.items():
            for b in free:
                grown = ideal | 1 << b
                if grown not in bigger:
                    fresh = (w for w in after[b] if needs[w] & ~grown == 0)
                    bigger[grown] = (*(other for other in free if other != b), *fresh)
                    if len(found) + len(bigger) > most:
                        raise SolverError(
                            f"ideals-dp: this graph has more than {most} ideals (its branches run "
                            "side by side)"
                        )
        level = bigger
        found += level
    width = -(-len(blocks) // 8)
    packed = b"".join(ideal.to_bytes(width, "little") for ideal in found)
    rows = np.frombuffer(packed, np.uint8).reshape(len(found), width)
    table = np.unpackbits(rows, axis=1, count=len(blocks), bitorder="little")
    return table.astype(np.bool_)
