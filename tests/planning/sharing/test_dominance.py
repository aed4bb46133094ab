"""A mode is dropped only where no day needs it: not where its smaller batches are what fits."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.planning.choosing.questions import offer
from tests.planning.sharing.small_days import cheapest_day, random_day
from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.choosing.request import ModelVariant, SloLimit
from tvm_hetero.planning.sharing import SharedMachine, SharedModel, SharingRequest
from tvm_hetero.planning.sharing.dominance import needed_modes
from tvm_hetero.planning.sharing.problem import (
    POLICIES,
    MachineMode,
    SharedKind,
    SharingPolicy,
    SharingProblem,
)
from tvm_hetero.planning.sharing.program import solve_day
from tvm_hetero.planning.sharing.rating import rate_sharing
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.solvers import Options


def kind_of(*modes: MachineMode, room: int | None = 5) -> SharedKind:
    """Two models; each has a plan of 2 bytes and one of 3, and a third elsewhere."""
    sizes = ((2,), (3,), (2,))
    return SharedKind("m", 1, 10, modes, 1, (2, 2), (room,), (sizes, sizes), ((0, 0, 1), (0, 0, 1)))


ALONE = MachineMode("alone", (9, 9), alone=True, plans=(0, 0))
SMALL = MachineMode("5 ms", (5, 5), plans=(0, 0))
LARGE = MachineMode("10 ms", (8, 8), plans=(1, 1))


def test_what_carries_less_in_less_memory_is_kept_where_memory_is_short() -> None:
    assert needed_modes(kind_of(ALONE, SMALL, LARGE)) == [0, 1, 2]
    assert needed_modes(kind_of(ALONE, SMALL, LARGE, room=None)) == [0, 2]
    assert needed_modes(kind_of(ALONE, SMALL, LARGE, room=6)) == [0, 2]


def test_what_runs_on_another_copy_is_kept() -> None:
    elsewhere = replace(SMALL, plans=(2, 0))
    assert needed_modes(kind_of(ALONE, elsewhere, LARGE, room=None)) == [0, 1, 2]
    # Of a model that may not live there no copy counts.
    assert needed_modes(kind_of(ALONE, replace(elsewhere, carries=(0, 5)), LARGE, room=None)) == [
        0,
        2,
    ]


def test_of_equal_modes_the_first_is_kept_and_of_empty_ones_none() -> None:
    empty = MachineMode("2 ms", (0, 0))
    assert needed_modes(kind_of(ALONE, empty, SMALL, replace(SMALL, name="6 ms"))) == [0, 2]


@pytest.mark.parametrize(("room", "proven"), [(3, False), (None, True)])
def test_a_day_that_no_mode_carries_is_impossible_but_where_other_batches_might_fit(
    room: int | None, proven: bool
) -> None:
    problem = SharingProblem(("a", "b"), (kind_of(ALONE, LARGE, room=room),), ((9, 9),))
    with pytest.raises(InfeasibleError, match="raise 'available'") as caught:
        solve_day(problem, SharingPolicy(), Options(1.0, deadline=60.0))
    assert caught.value.proven == proven
    assert ("batches that were rated" in str(caught.value)) != proven


def with_third_mode(seed: int) -> SharingProblem:
    """A small day whose machines may be shared in two modes, one of which carries more."""
    problem, draw = random_day(seed), random.Random(f"third of {seed}")
    kinds = []
    for kind in problem.kinds:
        shared = kind.modes[1]
        more = tuple(c + draw.choice((0, 0, 1, 3)) if c else 0 for c in shared.carries)
        plans = tuple(draw.choice((p, 1 - p)) for p in shared.plans)
        third = MachineMode("10 ms", more, plans=plans)
        kinds.append(replace(kind, modes=(*kind.modes, third)))
    return replace(problem, kinds=tuple(kinds), need=problem.need[:2])


def test_days_without_what_is_dropped_cost_what_they_cost_with_it() -> None:
    dropped = kept = 0
    for seed in range(40):
        problem = with_third_mode(seed)
        if len(problem.machines) > 2:
            continue  # they have too many standings
        needed = [[kind.modes[g] for g in needed_modes(kind)] for kind in problem.kinds]
        less = replace(problem, kinds=tuple(
            replace(kind, modes=tuple(modes))
            for kind, modes in zip(problem.kinds, needed, strict=True)
        ))  # fmt: skip
        dropped += less != problem
        kept += less == problem
        policy = POLICIES["shared, by the hour"]
        assert cheapest_day(less, policy) == cheapest_day(problem, policy)
    assert dropped > 9 and kept > 3


def heavy(name: str) -> ModelVariant:
    """10 ms for one element, little more for four; a hundred bytes for each."""
    problem = Problem(
        TaskGraph([Task("t", weight_bytes=10, output_bytes=100)], []),
        {"t": {"d": Cost(((1, 0.010), (4, 0.0104)))}},
        offer("fast").platform,
        Objective(),
    )
    return ModelVariant(name, 70.0, problems={"fast": problem})


def test_two_models_share_a_machine_by_small_batches_where_large_ones_do_not_fit() -> None:
    """A quantum of 12.5 ms has batches of four and carries more; one of 10.2 ms has what fits."""
    own = offer("fast", 1)
    device = replace(own.platform.devices[0], memory=500)
    machine = SharedMachine(replace(own, platform=replace(own.platform, devices=(device,))))
    models = tuple(
        SharedModel(heavy(name), (SloLimit("latency", 99, limit),), (3.0,))
        for name, limit in (("a", 0.05), ("b", 0.0408))
    )
    request = SharingRequest(models, (machine,), batches=(1, 4), seconds=5.0)
    case = rate_sharing(request, Options(0.1, deadline=60.0))
    day = solve_day(case.problem, SharingPolicy(), Options(4.0, deadline=60.0))
    assert [sorted(each.parts) for each in day.plan[0]] == [[0, 1]]
    kind = case.problem.kinds[0]
    assert kind.modes[day.plan[0][0].mode].name == "10.2 ms"
    # Batches of four carry more of both.
    assert any(all(c > d for c, d in zip(mode.carries, kind.modes[1].carries, strict=True))
               for mode in kind.modes[2:])  # fmt: skip
