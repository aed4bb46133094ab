"""Frequency levels of a machine: that of least energy which keeps the SLO is chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.planning.choosing.questions import load
from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning.choosing import ChoiceAnswer, ChoiceRequest, RequestClass, choose
from tvm_hetero.planning.choosing.levels import MOST_WAYS, at_levels
from tvm_hetero.planning.choosing.request import MachineOffer, ModelVariant
from tvm_hetero.planning.sharing import SharedMachine, SharedModel, SharingRequest, share
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.report.planning.choice import choice_dict, choice_text
from tvm_hetero.solvers import Options

IDLE, HIGH = 4.0, 40.0


def clocked(low_watts: float, cores: int = 1, levels: int = 2) -> Platform:
    """Cores that answer in 20 ms, or at half the clock in 40 ms."""
    speeds = [("high", 1.0, HIGH), ("low", 0.5, low_watts)]
    speeds += [(f"l{i}", 0.5, low_watts) for i in range(levels - 2)]
    rows = [
        {"name": f"core{c}", "target": "llvm", "cores": [c], "idle_watts": IDLE, "price": 1.0,
         "peak_flops": 1e9, "bandwidth": 1e9,
         "levels": [{"name": n, "speed": s, "watts": w} for n, s, w in speeds[:levels]]}
        for c in range(cores)
    ]  # fmt: skip
    return Platform.from_dict({"format": "tvm-hetero/platform/1", "name": "m", "devices": rows})


def asked(
    low_watts: float, *classes: RequestClass, available: int = 2, goal: str = "energy"
) -> ChoiceRequest:
    platform = clocked(low_watts)
    seconds = {"core0.high": 0.02, "core0.low": 0.04}
    problem = Problem(
        TaskGraph([Task("t")], []),
        {"t": {name: Cost(((1, each),)) for name, each in seconds.items()}},
        platform,
        Objective(),
    )
    variant = ModelVariant("net", 1.0, problems={"m": problem})
    machine = MachineOffer("m", platform, available)
    return ChoiceRequest((variant,), (machine,), classes, goal, seconds=4.0, batches=(1,))


def answered(request: ChoiceRequest) -> ChoiceAnswer:
    return choose(request, Options(0.1, deadline=60.0), Options(5.0, deadline=60.0))


def levels_of(answer: ChoiceAnswer) -> list[tuple[str, int]]:
    return [(rated.option.machine.level, n) for rated, n in answer.choice.replicas]


def test_slow_and_steady_wins_where_a_request_takes_fewer_joules_so() -> None:
    # Above idling 36 W for 20 ms are 0.72 J, 8 W for 40 ms are 0.32 J.
    answer = answered(asked(12.0, load("a", 5.0, 0.5)))
    assert levels_of(answer) == [("core0.low", 1)]
    assert answer.choice.value == answer.choice.bound
    assert "m at core0.low" in choice_text(answer)
    assert choice_dict(answer)["choice"]["replicas"][0]["level"] == "core0.low"


def test_racing_to_idle_wins_where_the_lower_level_draws_too_much() -> None:
    # 21 W above idling for 40 ms are 0.84 J.
    answer = answered(asked(25.0, load("a", 5.0, 0.5)))
    assert levels_of(answer) == [("core0.high", 1)]


def test_an_slo_that_the_low_level_cannot_keep_is_kept_by_the_high_one() -> None:
    answer = answered(asked(12.0, load("tight", 1.5, 0.039), load("loose", 5.0, 0.5)))
    served = {r.served: r.option.machine.level for r, _ in answer.choice.replicas}
    assert served == {0: "core0.high", 1: "core0.low"}


def test_levels_are_of_one_machine_and_counted_and_paid_as_that() -> None:
    with pytest.raises(InfeasibleError, match="machines that can be had"):
        answered(asked(12.0, load("tight", 1.5, 0.039), load("loose", 5.0, 0.5), available=1))
    answer = answered(asked(12.0, load("a", 5.0, 0.5), goal="price"))
    assert answer.choice.price == 1.0
    # Where only the price counts the quickest level is as cheap, and the others are dominated.
    assert levels_of(answer) == [("core0.high", 1)]


def test_every_combination_of_levels_is_a_way_to_run_a_machine() -> None:
    machine = MachineOffer("m", clocked(12.0, cores=2), 1)
    ways = [each.level for each in at_levels(machine)]
    assert ways == [f"core0.{a}, core1.{b}" for a in ("high", "low") for b in ("high", "low")]
    for way in at_levels(machine):
        assert len(way.platform.devices) == 2 and way.label == f"m at {way.level}"
    plain = replace(machine, platform=next(at_levels(machine)).platform)
    assert list(at_levels(plain)) == [plain]
    with pytest.raises(UsageError, match=f"64 combinations .* at most {MOST_WAYS}"):
        list(at_levels(replace(machine, platform=clocked(12.0, cores=6))))


def test_sharing_refuses_levels_for_only_the_price_counts_there() -> None:
    request = asked(12.0, load("a", 5.0, 0.5))
    model = SharedModel(request.variants[0], request.classes[0].slo, (1.0,))
    with pytest.raises(UsageError, match="'core0' has frequency levels"):
        share(SharingRequest((model,), (SharedMachine(request.machines[0]),)))
