"""When a kernel has been repeated enough."""

from __future__ import annotations

import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.cost_models.kernels_alone.sampling import (
    AGREE,
    PATIENCE,
    TOLERANCE,
    SamplingPolicy,
    next_repeats,
    settled,
)

EFFORT = SamplingPolicy(budget=0.01, least=3, most=30)


def run(time_of: Callable[[int], float], effort: SamplingPolicy = EFFORT) -> list[float]:
    """Repeat as `next_repeats` wants; the i-th repeat takes ``time_of(i)`` seconds."""
    times: list[float] = []
    while repeat := next_repeats(times, effort):
        times += [time_of(len(times) + i) for i in range(repeat)]
    return times


def test_a_quiet_machine_stops_at_the_budget() -> None:
    assert len(run(lambda i: 0.001)) in (10, 11)


def test_a_quick_kernel_stops_at_the_most_repeats() -> None:
    assert len(run(lambda i: 1e-6)) == EFFORT.most


def test_a_slow_kernel_is_repeated_the_least() -> None:
    assert len(run(lambda i: 1.0)) == EFFORT.least


def test_one_lucky_repeat_is_not_believed_alone() -> None:
    # The first repeat is undisturbed, so is every tenth later on.
    times = run(lambda i: 0.001 if i % 10 == 0 else 0.0015)
    assert sum(t <= min(times) * (1 + TOLERANCE) for t in times) >= AGREE
    assert len(times) > len(run(lambda i: 0.0015))


@given(seed=st.integers(0, 2**32), slowest=st.sampled_from([1e-6, 1e-4, 1e-2, 1.0]))
def test_it_ends_whatever_the_times(seed: int, slowest: float) -> None:
    generator = random.Random(seed)
    taken = run(lambda i: generator.uniform(1e-7, slowest))
    assert EFFORT.least <= len(taken) <= PATIENCE * EFFORT.most + EFFORT.least


def test_a_time_that_still_falls_has_another_round() -> None:
    assert settled(None, 1.0), "with one round only there is nothing to compare with"
    assert settled(1.0, 2.0) and settled(1.0, 0.98)
    assert not settled(1.0, 0.9)
