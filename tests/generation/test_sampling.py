"""Tokens from logits."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from tests.draws import draws
from tvm_hetero.errors import NumericsError, UsageError
from tvm_hetero.generation.sampling import GREEDY, Sampling, choose_token, uniform

rows = st.lists(
    st.floats(-8, 8, width=32).map(lambda x: round(x * 2) / 2), min_size=1, max_size=40
).map(lambda row: np.array(row, np.float32))


def nucleus(logits, sampling):
    """The tokens that may be drawn and their probabilities, written down plainly."""
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    order = order[: sampling.top_k or None]
    weights = np.exp(np.array([float(logits[t]) for t in order]) / sampling.temperature)
    weights /= weights.sum()
    sums = np.cumsum(weights)
    count = next((i + 1 for i, s in enumerate(sums) if s >= sampling.top_p - 1e-12), len(order))
    return dict(zip(order[:count], weights[:count] / sums[count - 1], strict=True))


@settings(max_examples=draws(36), deadline=None)
@given(rows, st.sampled_from([0.3, 1.0, 2.0]), st.integers(0, 6), st.floats(0.05, 1.0))
def test_only_tokens_of_the_nucleus_are_drawn(logits, temperature, top_k, top_p):
    sampling = Sampling(temperature, top_k, top_p)
    allowed = nucleus(logits, sampling)
    drawn = {choose_token(logits, sampling, 0, position) for position in range(30)}
    assert drawn <= allowed.keys()


@pytest.mark.parametrize(
    "sampling",
    [Sampling(1.0), Sampling(0.7, 5), Sampling(1.5, 0, 0.8), Sampling(1.0, 6, 0.9, seed=7)],
)
def test_tokens_are_drawn_by_their_probabilities(sampling):
    logits = np.random.default_rng(1).standard_normal(12).astype(np.float32)
    chances = nucleus(logits, sampling)
    count = 3000
    drawn = [choose_token(logits, sampling, 3, position) for position in range(count)]
    seen = [drawn.count(token) for token in chances]
    assert stats.chisquare(seen, [count * p for p in chances.values()]).pvalue > 1e-3


def test_a_wide_vocabulary_with_an_even_nucleus():
    logits = np.zeros(5000, np.float32)
    logits[100] = 1.0
    drawn = {choose_token(logits, Sampling(1.0, 0, 0.5), 0, p) for p in range(300)}
    # The likeliest, and of the equal ones the first, until half of all is reached.
    assert max(drawn) < 2600
    assert len(drawn) > 200


def test_greedy_takes_the_first_of_the_largest():
    logits = np.array([1, 3, 3, 2], np.float32)
    assert choose_token(logits, GREEDY, 0, 0) == 1
    assert choose_token(logits, Sampling(1.0, top_k=1, seed=5), 9, 9) == 1


def test_random_numbers_hang_on_seed_sequence_and_position_alone():
    numbers = {
        (s, q, p): uniform(s, q, p) for s in (0, 1, 2**64 - 1) for q in (0, 1) for p in range(9)
    }
    assert len(set(numbers.values())) == len(numbers)
    assert all(0 <= number < 1 for number in numbers.values())
    assert uniform(1, 0, 3) == numbers[1, 0, 3]
    assert stats.kstest([uniform(5, q, p) for q in range(20) for p in range(50)], "uniform")[1] > (
        1e-3
    )


def test_settings_may_be_numbers_of_numpys():
    ours, theirs = (
        Sampling(0.9, 5, seed=3),
        Sampling(np.float32(0.9), np.int64(5), seed=np.int64(3)),
    )
    logits = np.arange(9, dtype=np.float32)
    for sequence in range(4):
        assert choose_token(logits, ours, sequence, 1) == choose_token(logits, theirs, sequence, 1)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(1.0)])
def test_logits_that_are_not_finite_are_refused(bad, sampling):
    with pytest.raises(NumericsError, match="position 4 are not finite"):
        choose_token(np.array([0, bad, 1], np.float32), sampling, 0, 4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "temperature -1.0: expected 0"),
        ({"temperature": float("nan")}, "temperature nan"),
        ({"top_k": -2}, "top_k -2"),
        ({"top_p": 0.0}, "top_p 0.0"),
        ({"top_p": 1.5}, "top_p 1.5"),
        ({"seed": -1}, "seed -1"),
        ({"temperature": "1"}, "temperature '1': expected 0"),
        ({"top_k": 1.5}, "top_k 1.5: expected 1 or more"),
        ({"top_p": None}, "top_p None"),
        ({"seed": 0.5}, "seed 0.5"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        Sampling(**options)
