"""From logits to a token: greedy, or drawn at random in a way that can be repeated.

Drawn tokens follow the usual recipe, in this order:

    temperature   logits / temperature; 0 means greedy, the largest logit
    top_k         of these the k largest
    top_p         of these the fewest, the largest first, whose probabilities sum up to top_p
    draw          one of the rest by its probability

The uniform number of a draw comes from a counter-based generator (Philox, Salmon et al., Parallel
Random Numbers: As Easy as 1, 2, 3, doi:10.1145/2063384.2063405): key (seed, stream), counter the
position of the token. So a draw depends on nothing that went before: not on the batch, not on what
else runs, not on whether the sequence was begun again. Of equal logits the lower token comes first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from tvm_hetero.errors import NumericsError, UsageError

Logits = np.ndarray[Any, Any]
# How many of the largest probabilities are looked at first where their sum is asked for (top_p),
# and by how much more next. Sorting all of a vocabulary takes as long as a small model's step.
_FIRST, _MORE = 64, 8


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen; as it stands, greedily.

    Attributes
    ----------
    temperature : 0 is greedy; 1 draws by the model's own probabilities, more is more even.
    top_k : draw among so many of the likeliest; 0: among all.
    top_p : draw among the likeliest that have this much probability together; 1: among all.
    seed : of the draws.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (isinstance(self.temperature, Real) and 0 <= self.temperature < math.inf):
            raise UsageError(f"temperature {self.temperature!r}: expected 0 (greedy) or more")
        if not (isinstance(self.top_k, Integral) and self.top_k >= 0):
            raise UsageError(f"top_k {self.top_k!r}: expected 1 or more, or 0 for all tokens")
        if not (isinstance(self.top_p, Real) and 0 < self.top_p <= 1):
            raise UsageError(f"top_p {self.top_p!r}: expected more than 0 and at most 1")
        if not (isinstance(self.seed, Integral) and 0 <= self.seed < 2**64):
            raise UsageError(f"seed {self.seed!r}: expected 0 to 2**64 - 1")
        # NumPy's numbers are welcome too, but do not become as large as a key of the draws.
        object.__setattr__(self, "top_k", int(self.top_k))
        object.__setattr__(self, "seed", int(self.seed))

    @property
    def greedy(self) -> bool:
        """Whether nothing is random."""
        return self.temperature == 0 or self.top_k == 1


GREEDY = Sampling()


def choose_token(logits: Logits, sampling: Sampling, stream: int, position: int) -> int:
    """The token that follows.

    Parameters
    ----------
    logits : one for each token.
    stream, position : whose random numbers it takes, and how many tokens stand before it.

    Raises
    ------
    NumericsError
        If logits are not finite, so that nothing can be chosen.
    """
    best = int(np.argmax(logits))  # of equal ones the first; a NaN counts as the largest
    if not math.isfinite(logits[best]):
        raise NumericsError(
            f"the logits of the token at position {position} are not finite: the model overflows "
            "or its weights are damaged (run --check-numerics names the task)"
        )
    if sampling.greedy:
        return best
    tokens, weights = _candidates(logits, sampling, float(logits[best]))
    sums = np.cumsum(weights)
    mark = uniform(sampling.seed, stream, position) * sums[-1]
    place = min(int(np.searchsorted(sums, mark, side="right")), len(sums) - 1)
    return place if tokens is None else int(tokens[place])


def uniform(seed: int, stream: int, position: int) -> float:
    """The random number in [0, 1) of a token."""
    generator = np.random.Philox(counter=position, key=seed | stream << 64)
    return float(generator.random_raw() >> 11) * 2.0**-53


def find_largest(values: Logits, count: int) -> np.ndarray[Any, Any]:
    """Where the `count` largest values stand, the largest first, of equal ones the first."""
    least = np.partition(values, -count)[-count]
    above = np.flatnonzero(values > least)
    equal = np.flatnonzero(values == least)[: count - len(above)]
    return np.concatenate([above[np.argsort(-values[above], kind="stable")], equal])


def _candidates(
    logits: Logits, sampling: Sampling, largest: float
) -> tuple[np.ndarray[Any, Any] | None, np.ndarray[Any, Any]]:
    """Tokens to draw from, the likeliest first, and their weights; None: all, as they stand."""
    tokens: np.ndarray[Any, Any] | None = None
    if 0 < sampling.top_k < len(logits):
        tokens = find_largest(logits, sampling.top_k)
        logits = logits[tokens]
    weights = np.exp((logits.astype(np.float64) - largest) / sampling.temperature)
    if sampling.top_p < 1:
        kept = _nucleus(weights, sampling.top_p)
        weights = weights[kept]
        tokens = kept if tokens is None else tokens[kept]
    return tokens, weights


def _nucleus(weights: np.ndarray[Any, Any], share: float) -> np.ndarray[Any, Any]:
    """The fewest of the largest weights whose sum is that share of all; the largest first."""
    wanted = share * float(weights.sum())
    count = min(_FIRST, len(weights))
    while True:
        found = find_largest(weights, count)
        sums = np.cumsum(weights[found])
        if sums[-1] >= wanted or count == len(weights):
            return found[: int(np.searchsorted(sums, wanted)) + 1]
        count = min(count * _MORE, len(weights))
