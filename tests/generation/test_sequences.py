"""How far a sequence has come."""

from __future__ import annotations

import numpy as np
import pytest

from tvm_hetero.errors import NumericsError
from tvm_hetero.generation.sequences import FULL, LIMIT, STOP, GenerationRequest, Sequence

LENGTH = 6


def likes(token: int) -> np.ndarray:
    """Logits whose largest is that token's."""
    return np.eye(10, dtype=np.float32)[token]


def test_the_next_token_is_chosen_when_all_are_in_the_caches():
    sequence = Sequence(0, GenerationRequest((1, 2, 3), 5))
    assert sequence.missing == 3
    assert sequence.advance(2, likes(9), LENGTH) is None
    assert (sequence.missing, list(sequence.new_tokens)) == (1, [])
    assert sequence.advance(1, likes(4), LENGTH) == 4
    assert (sequence.missing, list(sequence.new_tokens)) == (1, [4])
    assert sequence.reason is None


def test_lost_caches_are_rows_that_are_missing_again():
    sequence = Sequence(0, GenerationRequest((1, 2, 3), 5))
    sequence.advance(3, likes(4), LENGTH)
    sequence.rows = 0
    assert sequence.missing == 4
    assert sequence.advance(4, likes(5), LENGTH) == 5
    assert list(sequence.new_tokens) == [4, 5]


@pytest.mark.parametrize(
    ("request_", "made", "reason"),
    [
        (GenerationRequest((1,), 2), [4, 4], LIMIT),
        (GenerationRequest((1,), 9, stop=frozenset([5])), [4, 5], STOP),
        (GenerationRequest((1,), 2, stop=frozenset([4])), [4], STOP),
        (GenerationRequest((1, 1, 1, 1), 9), [4, 4, 4], FULL),
        (GenerationRequest((1,) * LENGTH, 9), [4], FULL),
        (GenerationRequest((1,) * LENGTH, 1), [4], LIMIT),
    ],
)
def test_why_a_sequence_ends(request_, made, reason):
    sequence = Sequence(0, request_)
    for token in made:
        assert sequence.reason is None
        sequence.advance(sequence.missing, likes(token), LENGTH)
    assert (sequence.reason, list(sequence.new_tokens)) == (reason, made)


def test_logits_that_are_not_finite_choose_nothing():
    sequence = Sequence(0, GenerationRequest((1,), 2))
    with pytest.raises(NumericsError):
        sequence.advance(1, np.full(10, np.nan, np.float32), LENGTH)
    assert list(sequence.new_tokens) == []
