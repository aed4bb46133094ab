"""What a machine is said to carry is what it carries when Poisson arrivals are played on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.planning.choosing.questions import offer, variant
from tests.planning.sharing.test_answer import asked, model, rated
from tvm_hetero.errors import UsageError
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.sharing import SharedMachine, share
from tvm_hetero.planning.sharing.problem import MachineHour
from tvm_hetero.planning.sharing.rating import RatedSharing, copies_of, sizes_of
from tvm_hetero.planning.sharing.replay import replay_day, serve_machine
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task, TaskGraph


def p99(case: RatedSharing, m: int, rate: float, seed: int) -> float:
    """Of 40,000 arrivals of the first model on a machine that does nothing else."""
    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1 / rate, 40_000)).tolist()
    times = sorted(serve_machine({0: arrivals}, {0: case.used[m, 0, 0].seconds}, {0: 1.0})[0])
    return times[-(-len(times) * 99 // 100) - 1]


@pytest.mark.parametrize(
    ("name", "limit"),
    [("large", 0.06), ("large", 0.11), ("large", 0.3), ("small", 0.015), ("small", 0.05),
     ("small", 0.6), ("small", 3.0)],
)  # fmt: skip
def test_fresh_poisson_arrivals_at_the_rated_rate_keep_the_slo(name: str, limit: float) -> None:
    case = rated(asked(model(name, (1.0,), limit)))
    carried = {m: kind.modes[0].carries[0] / 1000 for m, kind in enumerate(case.problem.kinds)}
    assert any(carried.values())
    for m, rate in carried.items():
        for seed in range(100, 104) if rate else ():
            assert p99(case, m, rate, seed) <= 1.25 * limit
            assert p99(case, m, 0.85 * rate, seed) <= limit
        # Nor is it far too little: a quarter more breaks the SLO.
        assert not rate or max(p99(case, m, 1.25 * rate, seed) for seed in range(4)) > limit


def test_a_models_arrivals_on_two_machines_are_those_of_two_poisson_streams() -> None:
    """With one of two machines' parts the SLO breaks as soon as arrivals of one do."""
    case = rated(asked(model("large", (1.0,), 0.11)))
    slow = [j for j, m in enumerate(case.problem.machines) if case.problem.kinds[m].name == "slow"]
    rate = case.problem.kinds[case.problem.machines[slow[0]]].modes[0].carries[0] / 1000

    def strain(machines: list[int]) -> float:
        asked_now = replace(case.request.models[0], rates=(rate * len(machines),))
        request = replace(case.request, models=(asked_now,), seconds=20_000 / rate / len(machines))
        hour = tuple(MachineHour(j, 0, {0: 1000}) for j in machines)
        return replay_day(replace(case, request=request), (hour,))[0].strain

    # By counting, two machines would be far easier than one: their arrivals are evenly spread.
    assert strain(slow[:2]) == pytest.approx(strain(slow[:1]), rel=0.15)


def test_a_batch_that_takes_no_time_is_refused() -> None:
    network = variant("small")
    free = {
        name: replace(problem, costs={"t": {"d": Cost(((1, 0.0), (4, 0.0)))}})
        for name, problem in network.problems.items()
    }
    request = asked(replace(model("small", (1.0,)), network=replace(network, problems=free)))
    with pytest.raises(UsageError, match="takes 0 s; expected at least 1e-06 s"):
        share(request)


def test_memories_are_counted_in_bytes() -> None:
    """A device of half a MiB carries what takes a quarter of it."""
    own = offer("slow")
    platform = replace(
        own.platform,
        devices=tuple(replace(each, memory=2**19) for each in own.platform.devices),
    )
    request = replace(
        asked(model("small", (1.0,))), machines=(SharedMachine(replace(own, platform=platform)),)
    )
    assert rated(request).problem.kinds[0].rooms == (2**19,)


def test_each_mode_has_the_memory_of_its_own_batch() -> None:
    """A model with 0.06 s runs batches of 4 alone, and with a short quantum less at once."""
    case = rated(asked(model("small", (5.0,), 0.06), model("large", (3.0,), 0.6)))
    several = 0
    for m, kind in enumerate(case.problem.kinds):
        devices = case.request.machines[m].offer.platform.devices
        for g, mode in enumerate(kind.modes):
            for i, carried in enumerate(mode.carries):
                if carried:
                    own = sizes_of(case.used[m, g, i], devices)
                    assert kind.sizes[i][mode.plan(i)] == own
        several += any(len(own) > 1 for own in kind.sizes)
    assert several


def test_plans_share_a_copy_that_have_the_weights_on_the_same_devices() -> None:
    case = rated(asked(model("small", (5.0,), 0.06)))
    first, *_ = case.used.values()
    moved = replace(
        first,
        plan=replace(
            first.plan,
            executions=tuple(replace(e, device="other") for e in first.plan.executions),
        ),
    )
    heavy = with_weights(first), with_weights(moved)
    assert copies_of((heavy[0], heavy[1], heavy[0])) == (0, 1, 0)
    # What weighs nothing is wherever it is.
    assert copies_of((first, moved)) == (0, 0)


def with_weights(option: ReplicaOption) -> ReplicaOption:
    """The same option of a network that weighs something."""
    problems = {
        name: replace(problem, graph=TaskGraph([Task("t", weight_bytes=8)], []))
        for name, problem in option.variant.problems.items()
    }
    return replace(option, variant=replace(option.variant, problems=problems))


def test_weights_that_take_longer_than_an_hour_to_load_are_refused() -> None:
    network = variant("small")
    heavy = {
        name: replace(problem, graph=TaskGraph([Task("t", weight_bytes=4_000_000)], []))
        for name, problem in network.problems.items()
    }
    request = asked(replace(model("small", (1.0,)), network=replace(network, problems=heavy)))
    slow = tuple(replace(each, loading=1000.0) for each in request.machines)
    with pytest.raises(UsageError, match=r"takes 4060 s .* expected at most an hour"):
        share(replace(request, machines=slow))


def test_a_question_of_more_than_the_program_has_room_for_is_refused_at_once() -> None:
    models = tuple(
        replace(model("small", (1.0,) * 168, 0.3 + i / 100),
                network=replace(variant("small"), name=f"m{i}"))
        for i in range(10)
    )  # fmt: skip
    with pytest.raises(UsageError, match=r"are .* parts of time to be decided; expected at most"):
        share(asked(*models, available=40))
