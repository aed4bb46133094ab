"""Whose fault it is that a stage takes longer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.online.live.watched import PLACES, observed
from tvm_hetero.online.live.diagnosis import explain
from tvm_hetero.online.observation import Observation

BASE = observed((4e-3, 6e-3))


@pytest.mark.parametrize(
    ("seen", "cause"),
    [
        # It wanted a core for 4 ms and had none.
        (observed((8e-3, 6e-3), cpu=(4e-3, 6e-3), queued=(4e-3, 0.0)), "a share of its core"),
        # It had its core all the time, and needed it for longer than before; the other did not.
        (observed((8e-3, 6e-3)), "cache or memory bandwidth"),
        # Both need longer, but one much more than the other.
        (observed((8e-3, 7e-3)), "cache or memory bandwidth"),
        # Both need longer by the same factor.
        (observed((6e-3, 9e-3)), "clock is slower"),
        # Neither: the time went elsewhere.
        (observed((8e-3, 6e-3), cpu=(4e-3, 6e-3)), "neither its core nor its memory"),
        # A bit of each: what most of it is, is said.
        (observed((8e-3, 6e-3), cpu=(5e-3, 6e-3), queued=(3e-3, 0.0)), "a share of its core"),
    ],
)
def test_the_cause_is_told_by_what_grew(seen: Observation, cause: str) -> None:
    text = explain(BASE, seen, PLACES)
    assert cause in text


def test_the_stage_that_suffers_most_is_named_with_its_place_and_factor() -> None:
    text = explain(BASE, observed((5e-3, 12e-3)), PLACES)
    assert text.startswith("stage 1 on little1 takes 2.00 times as long")


def test_nothing_is_said_of_stages_that_are_as_quick_as_they_were_or_quicker() -> None:
    assert explain(BASE, BASE, PLACES) == ""
    assert explain(BASE, observed((4.2e-3, 6.3e-3)), PLACES) == ""
    assert explain(BASE, observed((2e-3, 3e-3)), PLACES) == ""


def test_a_kernel_that_tells_nothing_leaves_the_cause_unknown() -> None:
    seen = observed((8e-3, 6e-3))
    blind = tuple(replace(stage, cpu_seconds=None, delay_seconds=None) for stage in seen.stages)
    assert "of unknown cause" in explain(BASE, replace(seen, stages=blind), PLACES)


def test_a_kernel_that_tells_no_queue_is_still_believed_about_the_core() -> None:
    base, seen = (
        replace(o, stages=tuple(replace(stage, delay_seconds=None) for stage in o.stages))
        for o in (BASE, observed((8e-3, 6e-3)))
    )
    assert "cache or memory bandwidth" in explain(base, seen, PLACES)
