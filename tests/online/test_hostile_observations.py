"""Observations that make no sense are refused; what makes sense, however wild, breaks no policy."""

from __future__ import annotations

import math
import random

import pytest

from tests.online.settings import random_setting
from tvm_hetero.errors import UsageError
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.own_plan import check_arrangement
from tvm_hetero.online.policies import make_policy, policy_names
from tvm_hetero.online.policy import Proposal

BAD = (math.nan, math.inf, -1.0)


def test_times_that_are_none_are_refused() -> None:
    for bad in BAD:
        for given in ((bad,), (1.0, bad), (1.0, 0.0, bad), (1.0, 0.0, 0.5, bad)):
            with pytest.raises(UsageError):
                StageTime(*given)
    with pytest.raises(UsageError):
        StageTime(0.0)


def test_windows_that_are_none_are_refused() -> None:
    whole, stages = Configuration((2,), (0,)), (StageTime(1.0),)
    for requests, seconds, throughput in (
        *((5, bad, 1.0) for bad in BAD), *((5, 1.0, bad) for bad in (*BAD, 0.0)), (0, 1.0, None),
    ):  # fmt: skip
        with pytest.raises(UsageError):
            Observation(whole, requests, seconds, throughput, stages)
    with pytest.raises(UsageError, match="at least one request, got 0"):
        Proposal(whole, 0, "try", "nothing is watched")


@pytest.mark.parametrize("name", policy_names())
def test_times_that_jump_over_twelve_decades_break_no_policy(name: str) -> None:
    for seed in range(3):
        draw, setting = random.Random(seed), random_setting(seed, blocks=6)
        policy = make_policy(name)
        state, proposal = policy.begin(setting)
        for _ in range(25):
            check_arrangement(proposal.configuration, 6, setting.places)
            stages = tuple(
                StageTime(10 ** draw.uniform(-6, 6), 10 ** draw.uniform(-9, 3), None, draw.random())
                for _ in range(len(proposal.configuration))
            )
            rate = draw.choice((None, 10 ** draw.uniform(-6, 6)))
            seen = Observation(proposal.configuration, proposal.requests, 1.0, rate, stages)
            state, proposal = policy.step(state, seen)
