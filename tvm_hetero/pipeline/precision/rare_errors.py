"""What errors that were measured say of those that were not.

Count
    Of inputs that are drawn alike let a share q make an error above the limit. That none of n does
    has the probability (1 - q)^n. Where K choices that were fixed before may be tried on the same n
    inputs until one keeps the limit on all, one of a share above q is believed with a probability
    of at most K (1 - q)^n. So with the confidence 1 - d the share is at most

        q = 1 - (d / K)^(1/n)

    whatever the distribution of errors. Trying choices in a fixed order and correcting for their
    number: Angelopoulos et al., Learn then Test, arXiv:2110.01052.

Tail
    A choice whose largest error lies just below the limit keeps a share of q, but no more. So
    beyond that count the error of one input in a thousand is estimated, by the excesses over the
    largest tenth's least error u: where these are exponential (a shape of 0 in Pickands,
    doi:10.1214/aos/1176343003) of mean m, an error is exceeded by a share p at

        u + m log(k / (n p)),     k the number of errors above u

    That is a margin by the spread of errors, not a bound: tails may be longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CONFIDENCE = 0.95
RARE = 1e-3
_TOP = 10  # one in so many is of the tail


def exceeding_share(count: int, tries: int) -> float:
    """The share of inputs whose error is above a limit that none of `count` exceeded, at most.

    Parameters
    ----------
    count : inputs on which the limit held.
    tries : choices that may have been tried on them, this one included.
    """
    return 1 - ((1 - CONFIDENCE) / tries) ** (1 / count) if count else 1.0


def rare_error(errors: Sequence[float]) -> float:
    """The error of one input in a thousand, estimated; the largest one, if that is larger."""
    largest = max(errors, default=0.0)
    if len(errors) < 2 or not math.isfinite(largest):
        return largest
    falling = sorted(errors, reverse=True)
    top = max(1, len(falling) // _TOP)
    threshold = falling[top]
    excess = math.fsum(error - threshold for error in falling[:top]) / top
    return max(largest, threshold + excess * math.log(top / (len(falling) * RARE)))
