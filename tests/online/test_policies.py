"""Policies on tables without noise: pure, they end, never worse than where they began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, islice, pairwise

import pytest

from tests.online.driving import Seen, drive, search_once
from tests.online.settings import observe, random_setting, single_cores
from tests.online.test_optimum import every_configuration
from tvm_hetero.errors import UsageError
from tvm_hetero.online.adaptation import adaptive_policy
from tvm_hetero.online.configuration import Configuration, Place, check_configuration
from tvm_hetero.online.optimum import bottleneck, find_optimum
from tvm_hetero.online.policies import lls, make_policy, odin, policy_names, shisha
from tvm_hetero.online.policies.exhaustive import configuration_at, count_configurations
from tvm_hetero.online.policies.pipe_search import make_database
from tvm_hetero.online.policy import Policy, Setting

SEARCHES = ("annealing", "exhaustive", "hill-climbing", "pipe-search", "random-walk", "shisha")


def at_once(name: str) -> Policy:
    """LLS or ODIN, searching from the static configuration at once."""
    search = {"lls": lls.SEARCH, "odin": odin.SEARCH}[name]
    return adaptive_policy(search, lambda setting: setting.static)


def policies() -> list[Policy]:
    return [*map(make_policy, SEARCHES), at_once("lls"), at_once("odin")]


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy.name)
@pytest.mark.parametrize("seed", range(4))
def test_a_search_ends_and_is_not_worse_than_where_it_began(policy: Policy, seed: int) -> None:
    setting = random_setting(seed, blocks=5)
    seen = search_once(policy, setting)
    for observation, _ in seen:
        check_configuration(observation.configuration, 5, setting.places)
    settled = seen[-1][1].configuration
    assert setting.seconds is not None
    rate = 1 / bottleneck(setting.seconds, settled)
    assert rate >= seen[0][0].rate * (1 - 1e-12)
    assert rate >= max(observation.rate for observation, _ in seen) * (1 - 1e-8)


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy.name)
def test_the_same_observations_lead_to_the_same_proposals(policy: Policy) -> None:
    setting = random_setting(7, blocks=6)
    runs = [list(islice(drive(policy, setting, 60), 60)) for _ in range(2)]
    assert runs[0] == runs[1]


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: policy.name)
def test_how_a_rate_was_told_does_not_change_what_is_found(policy: Policy) -> None:
    """Measured ones are below what the slowest stage admits; some windows have none."""
    setting = random_setting(5, blocks=5)
    assert setting.seconds is not None
    found = []
    for some in (1, 2):
        state, proposal = policy.begin(setting)
        for number in range(300):
            seen = observe(setting.seconds, proposal.configuration, proposal.requests)
            assert seen.throughput is not None
            measured = None if number % some else 0.8 * seen.throughput
            state, proposal = policy.step(state, replace(seen, throughput=measured))
            if proposal.phase == "settled":
                break
        found.append((number, proposal.configuration))
    assert found[0] == found[1]


@pytest.mark.parametrize("alpha", [1, 3, 10])
@pytest.mark.parametrize("name", ["shisha", "odin"])
def test_alpha_bounds_the_trials_between_two_better_ones(name: str, alpha: int) -> None:
    for seed in range(20):
        setting = random_setting(seed, blocks=9, alpha=alpha)
        policy = make_policy("shisha") if name == "shisha" else at_once("odin")
        # Each of ODIN's moves in vain may be followed by a plateau as long as the pipeline.
        most = alpha if name == "shisha" else alpha * (1 + len(setting.places))
        assert longest_failure(search_once(policy, setting)) <= most


def longest_failure(seen: Sequence[Seen]) -> int:
    best, run, longest = 0.0, 0, 0
    for observation, _ in seen:
        run = 0 if observation.rate > best * (1 + 1e-9) else run + 1
        best, longest = max(best, observation.rate), max(longest, run)
    return longest


def test_exhaustive_search_finds_the_optimum_and_tries_each_configuration_once() -> None:
    for seed in range(5):
        setting = random_setting(seed, blocks=5)
        seen = search_once(make_policy("exhaustive"), setting)
        tried = [observation.configuration for observation, _ in seen][1:]
        assert len(tried) == len(set(tried)) == count_configurations(5, setting.places)
        assert setting.seconds is not None
        best = find_optimum(setting.seconds, setting.places).bottleneck
        settled = seen[-1][1].configuration
        assert bottleneck(setting.seconds, settled) == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("teams", [False, True])
def test_every_configuration_has_a_number(teams: bool) -> None:
    places = single_cores("big", "big", "little")
    if teams:
        places = (*places, Place("both", "big", (0, 1)))
    count = count_configurations(5, places)
    found = {configuration_at(5, places, number) for number in range(count)}
    assert found == set(every_configuration(5, places)) and len(found) == count
    with pytest.raises(IndexError):
        configuration_at(5, places, count)


# ------------------------------------------------------------------------------------- Shisha


@pytest.mark.parametrize("balance", shisha.BALANCES)
def test_shisha_finds_the_best_cuts_for_its_order_of_places(balance: shisha.Balance) -> None:
    """Its places never change after the seed, so this is what it can reach."""
    for seed in range(40):
        setting = random_setting(seed, blocks=6 + seed % 4)
        found = search_once(make_policy("shisha", balance=balance), setting)[-1][1].configuration
        assert setting.seconds is not None
        n, stages = setting.blocks, len(found)
        best = min(
            bottleneck(setting.seconds, Configuration((*cuts, n), found.places))
            for cuts in combinations(range(1, n), stages - 1)
        )
        assert bottleneck(setting.seconds, found) == pytest.approx(best, rel=1e-8)


def test_shishas_seed_gives_the_heaviest_stage_the_fastest_place() -> None:
    places = single_cores("little", "big", "big")
    setting = Setting(
        places, (1.0, 1.0, 6.0, 1.0, 1.0, 1.0), Configuration((6,), (0,)), speeds=(1.0, 2.0, 2.0)
    )
    by_weight = shisha.seed_of(setting, "rank_w")
    heavy = next(s for s, (a, b) in enumerate(by_weight.ranges) if a <= 2 < b)
    assert places[by_weight.places[heavy]].kind == "big"
    by_length = shisha.seed_of(setting, "rank_l")
    longest = max(range(len(by_length)), key=lambda s: by_length.ranges[s][1] - by_length.begins[s])
    assert places[by_length.places[longest]].kind == "big"
    drawn = {shisha.seed_of(replace(setting, seed=seed), "random") for seed in range(20)}
    assert len(drawn) > 1


def test_shishas_targets_are_on_fast_places_and_ranked_by_the_choice() -> None:
    ranked = shisha._ranked_targets
    times = (1.0, 9.0, 5.0, 0.5)
    assert ranked([0, 2, 3], 1, times, "lFEP") == [3, 0, 2]
    assert ranked([0, 2, 3], 1, times, "nFEP") == [0, 2, 3]
    assert ranked([2, 3], 1, times, "nlFEP") == [2, 3]
    assert ranked([0, 2, 3], 1, (6.0, 9.0, 5.0, 0.5), "nlFEP") == [2, 0, 3]


# -------------------------------------------------------------------------------- Pipe-search


def teams(count: int, kind: str, first: int) -> list[Place]:
    cores = range(first, first + count)
    return [
        Place(f"{kind}{begin}x{width}", kind, tuple(range(begin, begin + width)))
        for width in (1, 2, 4)
        if width <= count
        for begin in range(first, cores.stop - width + 1, width)
    ]


def moldable_setting(seed: int, blocks: int = 10) -> Setting:
    """Two fast and four slow cores in teams, as on a Jetson TX2; hints are off by a third."""
    setting = random_setting(seed, blocks=blocks)
    places = (*teams(2, "big", 0), *teams(4, "little", 2))
    speed = {"big": 2.0, "little": 1.0}
    seconds = tuple(
        tuple(w / speed[p.kind] / p.width ** (0.7 + 0.02 * (b % 5)) for p in places)
        for b, w in enumerate(setting.weights)
    )
    hints = tuple(1.3 * p.width if p.kind == "big" else 1.0 * p.width for p in places)
    return replace(setting, places=places, seconds=seconds, speeds=hints, alpha=10)


def test_the_database_holds_the_best_hinted_candidates_of_each_number_of_stages() -> None:
    setting = moldable_setting(1, blocks=6)
    database = make_database(setting)
    assert {len(candidate) for candidate in database} == set(range(1, 7))
    hints = tuple(tuple(w / s for s in setting.hinted_speeds) for w in setting.weights)
    best = find_optimum(hints, setting.places).bottleneck
    assert bottleneck(hints, database[0]) == pytest.approx(best)
    for candidate in database:
        check_configuration(candidate, 6, setting.places)


def test_pipe_search_gains_most_of_what_there_is_though_its_hints_are_wrong() -> None:
    reached, first = [], []
    for seed in range(6):
        setting = moldable_setting(seed)
        seen = search_once(make_policy("pipe-search"), setting)
        assert setting.seconds is not None and len(seen) < 40
        best = find_optimum(setting.seconds, setting.places).bottleneck
        reached.append(best / bottleneck(setting.seconds, seen[-1][1].configuration))
        first.append(best * seen[0][0].rate)
    assert min(reached) > 0.8 and sum(reached) / 6 > 0.93
    assert sum(first) / 6 < 0.7


# ----------------------------------------------------------------------------------- the others


def test_odin_relieves_the_slowest_stage_towards_the_side_with_less_to_do() -> None:
    assert odin._target((1.0, 9.0, 3.0, 0.5), 1) == 0
    assert odin._target((5.0, 9.0, 3.0, 0.5), 1) == 3
    assert odin._target((9.0, 3.0, 2.0), 0) == 2
    assert odin._target((9.0,), 0) is None


def test_odin_gives_a_place_back_what_it_had_to_give() -> None:
    places = single_cores("big", "big")
    quiet = ((1.0, 1.0), (1.0, 1.0))
    setting = Setting(places, (1.0, 1.0), Configuration((1, 2), (0, 1)), quiet, patience=1)
    slow = tuple((a, 10 * b) for a, b in quiet)
    seen = list(drive(make_policy("odin"), setting, 60, lambda w: slow if 3 <= w < 30 else quiet))
    assert len(seen[25][1].configuration) == 1
    assert not any(proposal.searching for _, proposal in seen[:2])


def test_lls_stops_where_the_throughput_begins_to_fall() -> None:
    for seed in range(10):
        rates = [seen.rate for seen, _ in search_once(at_once("lls"), random_setting(seed))]
        assert all(a <= b * (1 + 1e-9) for a, b in pairwise(rates[:-1]))


def test_hints_alone_are_enough_to_begin_with_even_where_a_block_has_no_work() -> None:
    places = single_cores("big", "little")
    static = Configuration((2, 4), (0, 1))
    setting = Setting(places, (3.0, 0.0, 1.0, 2.0), static, speeds=(2.0, 1.0), patience=1)
    known = replace(setting, seconds=((1.5, 3.0), (0.1, 0.1), (0.5, 1.0), (1.0, 2.0)))
    for name in policy_names():
        policy = make_policy(name)
        state, proposal = policy.begin(setting)
        for _ in range(8):
            assert known.seconds is not None
            state, proposal = policy.step(
                state, observe(known.seconds, proposal.configuration, proposal.requests)
            )
            check_configuration(proposal.configuration, 4, places)


def test_static_never_changes_anything() -> None:
    setting = random_setting(3)
    for _, proposal in drive(make_policy("static"), setting, 5):
        assert proposal.configuration == setting.static and proposal.phase == "keep"


def test_policies_are_had_by_name_and_nothing_else() -> None:
    assert {*SEARCHES, "lls", "odin", "resolve", "static"} == set(policy_names())
    with pytest.raises(UsageError, match=r"no policy 'shisa'.*shisha"):
        make_policy("shisa")
    with pytest.raises(UsageError, match="no option 'balance'"):
        make_policy("odin", balance="nFEP")
    with pytest.raises(UsageError, match="balance: expected one of"):
        make_policy("shisha", balance="xFEP")
    with pytest.raises(UsageError, match="assignment: expected one of"):
        make_policy("shisha", assignment="rank_x")


@pytest.mark.parametrize(
    "change",
    [{"alpha": 0}, {"speeds": (1.0,)}, {"classes": ("compute",)}, {"seconds": ((1.0,),)},
     {"seconds": ((float("inf"),) * 4,) * 8},
     {"static": Configuration((3,), (0,))}, {"margin": -1.0}, {"weights": (-1.0,) * 8}],
)  # fmt: skip
def test_a_setting_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        replace(random_setting(0), **change)  # type: ignore[arg-type]
