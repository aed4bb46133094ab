"""The replayed pipeline: exact where it can be computed by hand, and the same each time."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest

from tests.online.settings import single_cores
from tvm_hetero.errors import UsageError
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policies import make_policy, policy_names
from tvm_hetero.online.policy import Policy, Proposal, Setting, Turn
from tvm_hetero.online.simulator import (
    Disturbance,
    Stream,
    StreamReplay,
    best_throughput,
    replay_stream,
)
from tvm_hetero.online.table import ALONE, RecordedBlock, Recording

PLACES = single_cores("big", "big", "little")
STATIC = Configuration((3, 5, 6), (0, 1, 2))
# Stages of 3, 2 and 2 s on these places.
TIMES = {"big": (1.0,) * 6, "little": (2.0,) * 6}


def recording(noise: tuple[float, ...] = ()) -> Recording:
    busy = {kind: {1: tuple(3 * t for t in times)} for kind, times in TIMES.items()}
    alone = {kind: {1: times} for kind, times in TIMES.items()}
    blocks = tuple(RecordedBlock(f"b{i}", 1.0) for i in range(6))
    kinds = {"big": (1,), "little": (1,)}
    return Recording("net", blocks, kinds, (ALONE, "busy"), {ALONE: alone, "busy": busy}, "", noise)


def setting(**given: int) -> Setting:
    table = recording()
    return Setting(PLACES, table.weights, STATIC, table.seconds_on(PLACES), **given)  # type: ignore[arg-type]


def replay(name: str, requests: int, *disturbances: Disturbance, **given: object) -> StreamReplay:
    options = {"patience": 1, "window": 1, "trial": 1, "rest": 0}
    stream = Stream(recording(), PLACES, requests, disturbances, **given)  # type: ignore[arg-type]
    return replay_stream(make_policy(name), setting(**options), stream)


def test_a_full_pipeline_has_the_pace_of_its_slowest_stage() -> None:
    found = replay("static", 200)
    assert found.ended[0] == 7.0
    assert found.throughput == pytest.approx(1 / 3, rel=0.05)
    # Four requests are in flight, so that each meets three others before the slowest stage.
    assert found.latencies[-1] == pytest.approx(12.0)
    assert found.rates(50)[-1] == pytest.approx(1 / 3)
    assert found.latency_quantile(0.0) == 7.0


def test_a_disturbance_slows_the_requests_that_it_meets_and_no_other() -> None:
    found = replay("static", 60, Disturbance("busy", 0, 20, 30))
    assert found.bottlenecks == [3.0] * 20 + [9.0] * 10 + [3.0] * 30


def test_a_disturbance_by_time_slows_the_stages_that_begin_in_it() -> None:
    found = replay("static", 60, Disturbance("busy", 2, 30.0, 60.0), unit="seconds")
    slow = [q for q, b in enumerate(found.bottlenecks) if b == 6.0]
    assert slow == list(range(slow[0], slow[-1] + 1)) and 4 <= len(slow) <= 6
    assert found.entered[slow[0]] < 30.0 < found.ended[slow[0]]


class _Switching:
    """Proposes two configurations in turns."""

    def __init__(self, other: Configuration) -> None:
        self.ways = (STATIC, other)

    def begin(self, setting: Setting) -> Turn:
        return 0, Proposal(STATIC, 5, "keep", "")

    def step(self, state: int, observation: Observation) -> Turn:
        assert observation.configuration == self.ways[state % 2]
        return state + 1, Proposal(self.ways[(state + 1) % 2], 5, "keep", "")


@pytest.mark.parametrize("instant", [False, True])
def test_requests_in_flight_end_by_the_old_configuration(instant: bool) -> None:
    other = _Switching(Configuration((2, 6), (1, 0)))
    stream = Stream(recording(), PLACES, 100, instant=instant)
    found = replay_stream(Policy("switching", other.begin, other.step), setting(), stream)
    assert len(found.ended) == 100 and found.ended == sorted(found.ended)
    assert all(latency >= 5.0 for latency in found.latencies)
    # Only full windows of one configuration are shown; what entered meanwhile is not in them.
    switched = [turnover.request for turnover in found.turnovers]
    gaps = {b - a for a, b in pairwise(switched[1:])}
    assert gaps == {5} if instant else min(gaps) > 5
    assert found.switches == len(found.turnovers) - 1


def test_requests_of_trials_go_one_at_a_time_if_they_are_to() -> None:
    disturbance = Disturbance("busy", 0, 20, 60)
    serial = replay("odin", 60, disturbance, instant=True, serial=True)
    flowing = replay("odin", 60, disturbance, instant=True)
    trying = [q for q, trial in enumerate(serial.trying) if trial]
    assert trying and serial.trials == len(trying)
    for q in trying:
        assert serial.entered[q] == serial.ended[q - 1]
    assert serial.trials == flowing.trials
    assert serial.ended[-1] > flowing.ended[-1]


@pytest.mark.parametrize("name", sorted(set(policy_names()) - {"exhaustive"}))
def test_every_policy_keeps_the_pipeline_going_and_does_the_same_again(name: str) -> None:
    disturbance = Disturbance("busy", 0, 100, 300)
    found = replay(name, 400, disturbance)
    assert found == replay(name, 400, disturbance)
    assert len(found.ended) == len(found.latencies) == 400
    assert all(math.isfinite(end) for end in found.ended)


def test_resolve_ends_sooner_than_static_and_lls_under_a_disturbance() -> None:
    disturbance = Disturbance("busy", 0, 50, 350)
    ends = {n: replay(n, 400, disturbance).ended[-1] for n in ("static", "lls", "resolve")}
    assert ends["resolve"] < ends["lls"] <= ends["static"]
    best = best_throughput(Stream(recording(), PLACES, 400, (disturbance,)))
    assert best[0] == best[399] == pytest.approx(1 / 3)
    assert best[100] == pytest.approx(1 / 4)
    assert ends["resolve"] < 1.05 * sum(1 / rate for rate in best) + 30


def test_noise_is_the_recordings_and_has_a_seed() -> None:
    stream = Stream(recording((1.0, 1.5)), PLACES, 50, noise_seed=1)
    found = replay_stream(make_policy("static"), setting(), stream)
    assert set(found.bottlenecks) == {3.0, 4.5}
    with pytest.raises(UsageError, match="has no noise"):
        replay_stream(
            make_policy("static"), setting(), Stream(recording(), PLACES, 5, noise_seed=1)
        )


def test_a_stream_that_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one request"):
        Stream(recording(), PLACES, 0)
    with pytest.raises(UsageError, match="no place 3"):
        Stream(recording(), PLACES, 5, (Disturbance("busy", 3, 0, 1),))
    with pytest.raises(UsageError, match="no scenario"):
        Stream(recording(), PLACES, 5, (Disturbance("bussy", 0, 0, 1),))
    with pytest.raises(UsageError, match="by request number only"):
        best_throughput(Stream(recording(), PLACES, 5, unit="seconds"))
