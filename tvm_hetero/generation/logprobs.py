"""How likely a token was, and which others were: of the model itself, before any temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tvm_hetero.errors import NumericsError
from tvm_hetero.generation.sampling import Logits, find_largest

# Of what cannot be (a logit of minus infinity), which JSON has no number for.
LEAST = -9999.0


@dataclass(frozen=True)
class TokenLogprobs:
    """A token in its place.

    Attributes
    ----------
    token, logprob : the token that stands there, and the logarithm of its probability.
    top : the likeliest tokens there with theirs, the likeliest first.
    """

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


def score_token(logits: Logits, token: int, count: int) -> TokenLogprobs:
    """How likely a token is by these logits, and the `count` likeliest.

    Raises
    ------
    NumericsError
        If the logits are not finite.
    """
    largest = float(np.max(logits))  # a NaN counts as the largest
    if not math.isfinite(largest):
        raise NumericsError("the logits are not finite: no token has a probability")
    shifted = logits.astype(np.float64) - largest
    whole = math.log(float(np.exp(shifted).sum()))
    found = find_largest(logits, min(count, len(logits))) if count else ()
    top = tuple((int(each), _bounded(shifted[each] - whole)) for each in found)
    return TokenLogprobs(token, _bounded(shifted[token] - whole), top)


def _bounded(value: float) -> float:
    return max(LEAST, float(value))
