"""The artifact's own plan: what it is to a policy, and that `resolve` begins and ends with it."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.models import branchy, lowered, random_schedule, two_cpus, unit_problem
from tests.online.driving import Seen, drive
from tests.online.settings import Seconds, observe, random_setting
from tvm_hetero.errors import UsageError
from tvm_hetero.online.chain import arrangement_of_schedule, chain_of, places_of, schedule_of
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.optimum import bottleneck, find_optimum, stage_seconds
from tvm_hetero.online.own_plan import OwnPlan, arrangement_of, contiguous
from tvm_hetero.online.policies import make_policy
from tvm_hetero.online.policy import Setting
from tvm_hetero.views.instance import instance_of

HALVES = OwnPlan((0, 1), ((1.0, 0.5, 0.0), (0.0, 0.5, 1.0)))


def test_its_stages_take_their_shares_of_blocks() -> None:
    assert stage_seconds(((2.0, 8.0), (4.0, 6.0), (1.0, 5.0)), HALVES) == (4.0, 8.0)


def test_whole_blocks_in_a_row_are_a_configuration() -> None:
    rows = ((0.0, 0.0, 1.0), (1.0, 1.0, 0.0))
    assert arrangement_of((0, 1), rows) == Configuration((2, 3), (1, 0))
    assert arrangement_of(HALVES.places, HALVES.shares) == HALVES
    mixed = ((1.0, 0.0, 1.0), (0.0, 1.0, 0.0))
    assert arrangement_of((0, 1), mixed) == OwnPlan((0, 1), mixed)


@pytest.mark.parametrize(
    ("places", "shares", "message"),
    [
        ((), (), "at least one stage"),
        ((0, 0), ((1.0,), (1.0,)), "place of its own"),
        ((0, 1), ((1.0, 0.0), (0.0, 0.0)), "share of some block"),
        ((0, 1), ((1.0, 0.0), (1.0,)), "a row of all blocks"),
        ((0,), ((1.5,),), "from 0 to 1"),
        ((0,), ((float("nan"),),), "from 0 to 1"),
    ],
)
def test_what_is_no_plan_is_refused(
    places: tuple[int, ...], shares: tuple[tuple[float, ...], ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        OwnPlan(places, shares)


def test_nothing_can_be_moved_in_it_and_a_setting_knows_its_chain() -> None:
    with pytest.raises(UsageError, match="expected contiguous stages, got the artifact's own"):
        contiguous(HALVES)
    setting = random_setting(0)
    with pytest.raises(UsageError, match="the plan covers 3 blocks; the chain has 8"):
        replace(setting, own=HALVES)
    far = OwnPlan((9,), ((1.0,) * 8,))
    with pytest.raises(UsageError, match="the plan names place 9"):
        replace(setting, own=far)


@pytest.mark.parametrize("seed", range(8))
def test_a_schedule_s_seconds_on_each_device_are_those_of_its_stages(seed: int) -> None:
    platform = two_cpus()
    problem = unit_problem(lowered(branchy(), platform), platform)
    chain, places = chain_of(problem), places_of(platform)
    schedule = random_schedule(problem, seed)
    found = arrangement_of_schedule(chain, schedule, places)
    inside = {task for block in chain.members for task in block}
    instance, index = instance_of(problem), problem.graph.index
    work = [0.0, 0.0]
    for run in schedule.executions:
        if run.task in inside:
            device = platform.index[run.device]
            part = len(run.elements) / problem.batch
            work[device] += part * instance.seconds[index[run.task]][device]
    told = dict(zip(found.places, stage_seconds(chain.seconds_on(places), found), strict=True))
    assert [told.get(p, 0.0) for p in range(2)] == pytest.approx(work)


def test_the_schedule_of_a_configuration_is_that_configuration() -> None:
    platform = two_cpus()
    problem = unit_problem(lowered(branchy(), platform), platform)
    chain, places = chain_of(problem), places_of(platform)
    way = Configuration((3, len(chain)), (1, 0))
    assert arrangement_of_schedule(chain, schedule_of(chain, way, places), places) == way


# ------------------------------------------------------------------------------------- resolve


def planned(seed: int) -> Setting:
    """Two places, and an own plan that divides the work evenly, which no contiguous stages do."""
    draw = random.Random(seed)
    weights = tuple(draw.uniform(0.5, 3.0) for _ in range(6))
    places = random_setting(0).places[:2]
    speeds = (1.0, draw.uniform(0.4, 1.0))
    seconds = tuple(tuple(w / s for s in speeds) for w in weights)
    static = find_optimum(seconds, places).configuration
    part = speeds[0] / sum(speeds)
    own = OwnPlan((0, 1), ((part,) * 6, (1 - part,) * 6))
    return Setting(places, weights, static, seconds, speeds, patience=1, rest=0, own=own)


def slowed(setting: Setting, place: int, factor: float) -> Seconds:
    assert setting.seconds is not None
    return [[t * factor if p == place else t for p, t in enumerate(row)] for row in setting.seconds]


def ways(seen: list[Seen]) -> list[object]:
    return [proposal.configuration for _, proposal in seen]


@pytest.mark.parametrize("seed", range(12))
def test_in_quiet_it_stays_and_after_a_disturbance_it_comes_back(seed: int) -> None:
    setting = planned(seed)
    assert setting.seconds is not None
    disturbed = slowed(setting, seed % 2, 2.0 + 0.2 * seed)
    world = lambda window: disturbed if 6 <= window < 20 else setting.seconds  # noqa: E731
    seen = list(drive(make_policy("resolve"), setting, 34, world))  # type: ignore[arg-type]
    assert seen[0][0].configuration == setting.own
    assert ways(seen)[:6] == [setting.own] * 6
    best = find_optimum(disturbed, setting.places).bottleneck
    meanwhile = seen[18][1].configuration
    assert bottleneck(disturbed, meanwhile) <= 1.05 * best
    assert ways(seen)[-1] == setting.own
    probed = (
        len(meanwhile) == 1
    )  # an idle place shows that it is well only if it is given something
    assert any(proposal.searching for _, proposal in seen[20:]) == probed


def test_under_a_disturbance_the_own_plan_is_kept_where_no_stages_are_better() -> None:
    """Both places are slower by the same factor: what was balanced is balanced still."""
    setting = planned(3)
    assert setting.seconds is not None
    slow = [[1.6 * t for t in row] for row in setting.seconds]
    world = lambda window: slow if window >= 4 else setting.seconds  # noqa: E731
    seen = list(drive(make_policy("resolve"), setting, 16, world))  # type: ignore[arg-type]
    assert set(ways(seen)) == {setting.own}


def test_an_own_plan_that_turns_out_to_be_worse_is_left_for_contiguous_stages() -> None:
    setting = planned(5)
    assert setting.seconds is not None
    bad = replace(setting, own=OwnPlan((0, 1), ((0.9,) * 6, (0.1,) * 6)))
    seen = list(drive(make_policy("resolve"), bad, 8))
    assert ways(seen)[-1] == setting.static
    assert bottleneck(setting.seconds, setting.static) < bottleneck(setting.seconds, bad.first)


def test_static_stays_with_it_and_policies_of_the_papers_begin_with_contiguous_stages() -> None:
    setting = planned(1)
    seen = list(drive(make_policy("static"), setting, 4))
    assert set(ways(seen)) == {setting.own}
    for name in ("odin", "lls"):
        assert make_policy(name).begin(setting)[1].configuration == setting.static


def test_a_search_that_is_shown_the_own_plan_says_that_it_cannot_move_blocks_of_it() -> None:
    setting, climb = planned(1), make_policy("hill-climbing")
    assert setting.own is not None and setting.seconds is not None
    with pytest.raises(UsageError, match="expected contiguous stages"):
        climb.step(climb.begin(setting)[0], observe(setting.seconds, setting.own))
