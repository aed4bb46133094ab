"""No ordering changes an optimum, and a start that is renamed for it satisfies it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.brute_force import brute_force, optimal_schedule
from tests.draws import draws
from tests.solvers.examples import counted
from tests.views.test_symmetry import chain_on, cluster, doubled
from tvm_hetero.check import verified
from tvm_hetero.problem import Objective
from tvm_hetero.solvers.core.options import SYMMETRIES
from tvm_hetero.solvers.cpsat import solver as cpsat
from tvm_hetero.solvers.cpsat.symmetry_breaking import orderings, renaming, symmetry_of, weight
from tvm_hetero.views.instance import Instance
from tvm_hetero.views.symmetry import Symmetry


def loads(instance, mode, placement):
    """What each device has to do, by an ordering's weights (eighths of a second for time)."""
    weigh = weight(instance, mode, lambda v, d: int(instance.seconds[v][d] * 8))
    result = [0] * len(instance.names)
    for v, d in enumerate(placement):
        result[d] += weigh(v, d)
    return result


@settings(max_examples=draws(36), deadline=None)
@given(doubled(), st.sampled_from(SYMMETRIES), st.data())
def test_a_renamed_placement_satisfies_every_row(problem, mode, data):
    instance = Instance(problem)
    placement = [data.draw(st.sampled_from(row)) for row in instance.devices]
    symmetry = symmetry_of(instance, mode)
    weigh = weight(instance, mode, lambda v, d: int(instance.seconds[v][d] * 8))
    names = renaming(symmetry, weigh, placement)
    assert sorted(names) == list(range(len(instance.names)))
    load = loads(instance, mode, [names[d] for d in placement])
    for row in orderings(symmetry):
        assert sum(load[d] for d in row.more) >= sum(load[d] for d in row.less)


def test_blocks_are_ordered_by_their_sums_and_twins_in_them():
    symmetry = Symmetry(6, ((1, 2), (4, 5)), (((0, 1, 2), (3, 4, 5)),))
    placement = [0, 4, 5, 5, 3]  # the second node has more to do, its last device most
    assert renaming(symmetry, lambda v, d: 1, placement) == (3, 4, 5, 0, 2, 1)


def test_none_breaks_nothing():
    instance = Instance(chain_on(cluster([{"gpu": 2}]), {"gpu": 1.0}))
    assert orderings(symmetry_of(instance, "none")) == ()
    assert len(orderings(symmetry_of(instance, "tasks"))) == 1


@pytest.mark.parametrize("mode", SYMMETRIES)
@settings(max_examples=draws(12), deadline=None)
@given(problem=doubled())
def test_the_optimum_stays(mode, problem):
    problem = replace(problem, objective=Objective(problem.objective.kind))
    optimum = brute_force(problem)
    start = optimal_schedule(problem)
    options = counted(time_limit=20, symmetry=mode)
    found = verified(problem, cpsat.solve(problem, options))
    assert found.value == pytest.approx(optimum, rel=1e-6, abs=1e-9)
    assert found.lower_bound <= optimum * (1 + 1e-9) + 1e-12
    # The optimum itself as a start: its renaming is accepted, and nothing is called infeasible.
    again = verified(problem, cpsat.solve(problem, replace(options, start=start)))
    assert again.value == pytest.approx(optimum, rel=1e-6, abs=1e-9)
