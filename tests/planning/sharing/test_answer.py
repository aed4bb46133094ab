"""Shared days of networks of one task: what is carried, played, and cheaper than one model each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.planning.choosing.questions import offer, variant
from tvm_hetero.errors import InfeasibleError, SolverError, UsageError
from tvm_hetero.planning.choosing.rate import serve_batches
from tvm_hetero.planning.choosing.request import SloLimit
from tvm_hetero.planning.sharing import SharedMachine, SharedModel, SharingRequest, share
from tvm_hetero.planning.sharing.answer import find_day
from tvm_hetero.planning.sharing.judge import judge
from tvm_hetero.planning.sharing.problem import ALONE, MachineHour, SharingPolicy
from tvm_hetero.planning.sharing.rating import RatedSharing, rate_sharing
from tvm_hetero.planning.sharing.replay import replay_day, serve_machine
from tvm_hetero.solvers import Deadline, Options
from tvm_hetero.util.search_clock import now

_PLAN = Options(0.1, deadline=60.0)
_PROGRAM = Options(4.0, deadline=60.0)
# Two bytes of either model, by whichever of two plans.
_SIZES = (((2,), (2,)), ((2,), (2,)))


def model(name: str, rates: tuple[float, ...], limit: float = 0.3) -> SharedModel:
    return SharedModel(variant(name), (SloLimit("latency", 99, limit),), rates)


def asked(*models: SharedModel, available: int = 3) -> SharingRequest:
    machines = tuple(SharedMachine(offer(name, available)) for name in ("slow", "fast"))
    return SharingRequest(models, machines, batches=(1, 4), seconds=5.0)


def rated(request: SharingRequest) -> RatedSharing:
    return rate_sharing(request, _PLAN)


def test_two_models_of_little_load_share_a_machine_and_pay_half() -> None:
    request = asked(model("small", (5.0, 40.0, 5.0)), model("large", (3.0, 3.0, 0.0), 0.6))
    answer = share(request, _PLAN, _PROGRAM)
    own = answer.days["one machine a model, by the hour"]
    assert answer.day.policy == "shared, by the hour"
    assert answer.day.price <= 0.7 * own.price
    for name, day in answer.days.items():
        assert answer.bound <= day.bound <= day.price and day.strain <= 1, name
        assert all(each.holds for each in day.played)
    # Somewhere two models live together.
    assert any(len(each.parts) == 2 for hour in answer.day.plan for each in hour)


def test_the_days_of_the_answer_pass_the_judge_at_their_price() -> None:
    request = asked(model("small", (60.0, 5.0)), model("large", (20.0, 2.0), 0.6))
    answer = share(request, _PLAN, _PROGRAM)
    for day in answer.days.values():
        assert judge(answer.case.problem, day.plan) == pytest.approx(1e6 * day.price)


def test_who_is_not_asked_all_day_need_not_live_anywhere() -> None:
    request = asked(model("small", (5.0, 5.0)), model("large", (0.0, 0.0), 0.6))
    answer = share(request, _PLAN, _PROGRAM)
    assert answer.day.price == pytest.approx(2.0)  # two hours of the cheap machine


def test_a_machine_carries_less_of_each_when_batches_of_others_stand_in_the_way() -> None:
    request = asked(model("small", (5.0,), 0.06), model("large", (3.0,), 0.6))
    for kind in rated(request).problem.kinds:
        alone, *others = kind.modes
        assert alone.name == ALONE and alone.alone and not any(mode.alone for mode in others)
        for mode in others:
            assert all(a <= b for a, b in zip(mode.carries, alone.carries, strict=True))
    # 40 ms of the large one on the slow machine: nobody with 60 ms can wait for so long.
    slow = rated(request).problem.kinds[0]
    assert not any(all(mode.carries) for mode in slow.modes[1:])


def test_what_is_carried_is_less_than_what_full_batches_answer() -> None:
    case = rated(asked(model("small", (5.0,)), model("large", (3.0,), 0.6)))
    for m, kind in enumerate(case.problem.kinds):
        for g, mode in enumerate(kind.modes):
            for i, carried in enumerate(mode.carries):
                if carried:
                    option = case.used[m, g, i]
                    steady = option.batch / option.seconds[option.batch]
                    assert 0.3 * steady < carried / 1000 < steady


def test_a_lone_model_is_played_as_a_replica_of_it_is() -> None:
    arrivals = [0.0, 0.001, 0.002, 0.3, 0.31, 0.9]
    seconds = (0.0, 0.04, 0.06, 0.08, 0.1)
    times, _, _ = serve_batches(arrivals, seconds, 10.0)
    assert serve_machine({0: arrivals}, {0: seconds}, {0: 1.0})[0] == pytest.approx(times)


def test_who_has_to_be_done_first_goes_first_and_nobody_is_interrupted() -> None:
    queues = {0: [0.0, 0.01], 1: [0.02, 0.02]}
    tables = {0: (0.0, 0.1), 1: (0.0, 0.01, 0.015)}
    times = serve_machine(queues, tables, {0: 1.0, 1: 0.2})
    # The first batch ends at 0.1; then the two urgent ones together, then the other patient one.
    assert times[1] == pytest.approx([0.095, 0.095])
    assert times[0] == pytest.approx([0.1, 0.115 + 0.1 - 0.01])


def test_a_day_of_too_little_time_breaks_the_slo_in_the_replay() -> None:
    case = rated(asked(model("large", (20.0,))))
    kinds = case.problem.machines
    slow = next(j for j, m in enumerate(kinds) if case.problem.kinds[m].name == "slow")
    half = (MachineHour(slow, 0, {0: 500}),)
    enough = replay_day(case, (half,))
    assert enough[0].holds and enough[0].requests > 50
    heavy = replace(case, request=asked(model("large", (60.0,))))
    assert not replay_day(heavy, (half,))[0].holds


def test_what_cannot_be_shared_is_refused_with_the_reason() -> None:
    with pytest.raises(InfeasibleError, match="'large': no machine keeps its SLO"):
        share(asked(model("large", (1.0,), 0.005)), _PLAN, _PROGRAM)
    with pytest.raises(InfeasibleError, match="do not carry the day's load"):
        share(asked(model("large", (5000.0,)), available=1), _PLAN, _PROGRAM)
    with pytest.raises(SolverError, match="the time is up"):
        share(asked(model("large", (1.0,))), _PLAN, _PROGRAM, ends=Deadline.after(0.0))
    free = replace(offer("slow"), platform=replace(offer("slow").platform, devices=tuple(
        replace(d, price=None) for d in offer("slow").platform.devices)))  # fmt: skip
    request = replace(asked(model("large", (1.0,))), machines=(SharedMachine(free),))
    with pytest.raises(UsageError, match="no price"):
        share(request, _PLAN, _PROGRAM)


def test_days_that_were_found_are_kept_when_a_later_policys_time_is_up() -> None:
    late = [0.0]
    ends = Deadline(now() + 1000, lambda: now() + late[0])

    def tell(said: str) -> None:
        if said == "shared, by the hour":
            late[0] = 1e6

    request = asked(model("small", (5.0, 40.0)), model("large", (3.0, 3.0), 0.6))
    answer = share(request, _PLAN, _PROGRAM, tell, ends)
    assert len(answer.days) == 3 and list(answer.refused) == ["shared, by the hour"]
    assert "time" in answer.refused["shared, by the hour"]
    assert answer.day.policy == "shared, for the peak"


def test_no_room_for_margins_is_not_said_to_be_a_load_that_is_too_much() -> None:
    """A machine at exactly its rate, played for long: for margins there is no other machine."""
    request = asked(model("large", (1.0,), 0.15))
    case = rated(replace(request, machines=(SharedMachine(offer("slow", 1)),)))
    carried = case.problem.kinds[0].modes[0].carries[0]
    said = []
    for seed in range(12):
        busy = replace(model("large", (carried / 1000,), 0.15))
        own = replace(case.request, models=(busy,), seconds=20.0, seed=seed)
        problem = replace(case.problem, need=((carried,),))
        try:
            find_day(
                replace(case, request=own, problem=problem), "shared", SharingPolicy(), _PROGRAM
            )
        except InfeasibleError as error:
            assert not error.proven
            said.append(str(error))
    assert said and all("when played, and no more machines can be kept ready" in s for s in said)


def test_models_that_fit_only_one_by_one_do_not_live_together() -> None:
    request = asked(model("small", (5.0, 5.0)), model("large", (3.0, 3.0), 0.6))
    case = rated(request)
    tight = tuple(replace(kind, rooms=(3,), sizes=_SIZES, copies=()) for kind in case.problem.kinds)
    case = replace(case, problem=replace(case.problem, kinds=tight))
    day = find_day(case, "shared", SharingPolicy(), _PROGRAM)
    assert all(len(each.parts) <= 1 for hour in day.plan for each in hour)
