"""Policies compared on a recording of which all is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tvm_hetero.errors import UsageError
from tvm_hetero.online.comparison.outcome import measure_outcome
from tvm_hetero.online.comparison.recorded import (
    RecordedTrial,
    best_rates,
    recorded_places,
    replay_policy,
)
from tvm_hetero.online.comparison.spans import disturbed_once
from tvm_hetero.online.table import ALONE, RecordedBlock, Recording


def recording(blocks: int = 12, noise: tuple[float, ...] = ()) -> Recording:
    """Blocks of 1 ms on a big core and 2 ms on a little one; three times that beside ``busy``."""
    alone = {"big": {1: (1e-3,) * blocks}, "little": {1: (2e-3,) * blocks, 2: (1.2e-3,) * blocks}}
    busy = {
        kind: {width: tuple(3 * t for t in row) for width, row in rows.items()}
        for kind, rows in alone.items()
    }
    rows = tuple(RecordedBlock(f"b{i}", 1.0) for i in range(blocks))
    kinds = {"big": (1,), "little": (1, 2)}
    seconds = {ALONE: alone, "busy": busy}
    return Recording("net", rows, kinds, (ALONE, "busy"), seconds, noise=noise)


def trial(**given: object) -> RecordedTrial:
    table = recording()
    made = RecordedTrial(table, recorded_places(table, 4), "busy", 0, disturbed_once(900))
    return replace(made, **given)  # type: ignore[arg-type]


def test_kinds_take_turns_and_no_core_has_two_places() -> None:
    places = recorded_places(recording(), 5)
    assert [place.kind for place in places] == ["big", "little", "big", "little", "big"]
    assert len({core for place in places for core in place.cores}) == 5
    assert len({place.name for place in places}) == 5
    with pytest.raises(UsageError, match="at least one place"):
        recorded_places(recording(), 0)


def test_the_best_is_exact_and_policies_are_measured_by_it() -> None:
    made = trial()
    best = best_rates(made)
    # 4 + 2 + 4 + 2 blocks; disturbed, a big core has a third of its speed.
    assert best.quiet == pytest.approx(1 / 4e-3) and best.disturbed == pytest.approx(1 / 6e-3)
    found = {name: replay_policy(made, name) for name in ("resolve", "static")}
    figures = {name: measure_outcome(each, made.spans, best) for name, each in found.items()}
    assert figures["static"].disturbed == pytest.approx(1 / 12e-3, rel=0.02)
    assert figures["static"].recovery is None and figures["static"].switches == 0
    assert figures["resolve"].disturbed > 1.5 * figures["static"].disturbed  # type: ignore[operator]
    assert figures["resolve"].recovery is not None and figures["resolve"].switches >= 2
    switched = [change for change in found["resolve"].changes if change.switched]
    assert 300 < switched[0].request < 600 and "longer" in switched[0].why
    assert found["resolve"].changes[0].seconds > 0


def test_the_same_again_is_the_same_and_another_seed_has_other_noise() -> None:
    noise = tuple(1.0 + 0.01 * (i % 7) for i in range(50))
    noisy = trial(recording=recording(noise=noise))
    assert replay_policy(noisy, "odin") == replay_policy(noisy, "odin")
    other = replace(noisy, seed=1)
    assert replay_policy(other, "static").ended != replay_policy(noisy, "static").ended


def test_too_many_unlike_places_have_no_best() -> None:
    table = recording(blocks=30)
    made = RecordedTrial(table, recorded_places(table, 64), "busy", 0, disturbed_once(30))
    assert best_rates(made).disturbed is None


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="no scenario 'bussy'"):
        trial(scenario="bussy")
    with pytest.raises(UsageError, match="no place 4"):
        trial(place=4)
    with pytest.raises(UsageError, match="no policy 'resolv'"):
        replay_policy(trial(), "resolv")
