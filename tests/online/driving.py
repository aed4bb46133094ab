"""Drives policies by hand, on seconds that may change, for the tests of `tvm_hetero.online`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.online.settings import Seconds, observe
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.policy import Policy, Proposal, Setting

Seen = tuple[Observation, Proposal]


def drive(
    policy: Policy,
    setting: Setting,
    windows: int,
    world: Callable[[int], Seconds] | None = None,
) -> Iterator[Seen]:
    """Each window's observation, and what the policy proposes then."""
    assert setting.seconds is not None
    state, proposal = policy.begin(setting)
    for window in range(windows):
        seconds = setting.seconds if world is None else world(window)
        seen = observe(seconds, proposal.configuration, proposal.requests)
        before: Any = state
        state, proposal = policy.step(state, seen)
        # Pure: the same state and observation, the same answer.
        assert policy.step(before, seen) == (state, proposal)
        yield seen, proposal


def search_once(policy: Policy, setting: Setting, most: int = 2000) -> list[Seen]:
    """All windows until the policy settles for the first time."""
    found = []
    for seen in drive(policy, setting, most):
        found.append(seen)
        if seen[1].phase == "settled":
            return found
    raise AssertionError(f"{policy.name} does not settle within {most} windows")
