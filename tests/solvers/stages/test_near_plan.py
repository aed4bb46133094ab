"""Ideals around a plan: they are ideals, and the best chain of them is no worse than the plan."""

from __future__ import annotations

import math
import random

import numpy as np
from hypothesis import HealthCheck, assume, given, settings

from benchmarks.scheduling.runner import zoo_case
from tests.brute_force import brute_force
from tests.draws import draws
from tests.strategies import problems
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.solvers.stage_dp.linear_dp import linear_plan
from tvm_hetero.solvers.stages.near_plan import chain_of, ideals_near, improve_near
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.views.ideals import contract
from tvm_hetero.views.instance import Instance, instance_of

few = settings(max_examples=draws(25), deadline=None, suppress_health_check=list(HealthCheck))
BRANCHES = zoo_case(
    "series-parallel", "mixed-4", Objective("throughput", contiguous=True), tasks=60
)


@few
@given(problem=problems(max_tasks=5, kinds=["throughput"], memory=True, contiguous=True))
def test_what_is_found_is_better_and_no_better_than_the_best(problem: Problem) -> None:
    instance = Instance(problem)
    plan = linear_plan(instance)
    assume(plan is not None and 0 < exact_value(instance, plan) < math.inf)
    assert plan is not None
    found = improve_near(instance, plan, most=6_000, rounds=3, seed=0, deadline=math.inf)
    value = exact_value(instance, plan if found is None else found)
    assert found is None or value < exact_value(instance, plan)
    assert brute_force(problem) * (1 - 1e-9) <= value


def test_ideals_hold_what_their_tasks_read_and_the_chain_is_among_them() -> None:
    instance = instance_of(BRANCHES)
    plan = linear_plan(instance)
    assert plan is not None
    blocks = contract(instance, instance.terminals)
    chain = chain_of(blocks, plan)
    assert len(chain) == len({plan[members[0]] for members in blocks.members}) + 1
    table = ideals_near(blocks, chain, random.Random(1), width=3)
    assert all((table[:, list(row)] | ~table[:, [b]]).all() for b, row in enumerate(blocks.before))
    sizes = table.sum(axis=1)
    assert (np.diff(sizes) >= 0).all() and (sizes[0], sizes[-1]) == (0, len(blocks))
    rows = {int("".join("01"[x] for x in row[::-1]), 2) for row in table.astype(int)}
    assert rows.issuperset(chain) and len(rows) == len(table)
    # Of each size some three in each of three stages, whatever the width of the graph.
    assert len(chain) < len(table) <= 3 * 3 * (len(blocks) + len(chain))
    # Where it is late at once, the chain is all there is.
    late = ideals_near(blocks, chain, random.Random(1), 3, lambda: True)
    assert [int(size) for size in late.sum(axis=1)] == [ideal.bit_count() for ideal in chain]


def test_branches_on_many_devices_get_better_stages() -> None:
    instance = instance_of(BRANCHES)
    plan = linear_plan(instance)
    assert plan is not None
    found = improve_near(instance, plan, most=2_000, rounds=1, seed=0, deadline=math.inf)
    assert found is not None
    assert exact_value(instance, found) < 0.99 * exact_value(instance, plan)
    again = improve_near(instance, plan, most=2_000, rounds=1, seed=0, deadline=math.inf)
    assert again == found
    assert improve_near(instance, plan, most=10, rounds=1, seed=0, deadline=math.inf) is None
