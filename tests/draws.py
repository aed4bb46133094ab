"""How many examples a property is tried on.

A landing draws the same ones every time, half as many as are stated: they are there for what a
change breaks. `make fuzz`, which looks for faults, draws twenty times as many, new ones each time.
Without this a number of its own would hold in both.
"""

from __future__ import annotations

import os

_MORE = 10


def draws(count: int, least: int = 1) -> int:
    """Examples of a property.

    Parameters
    ----------
    count : stated for it; a fuzz run draws ten times as many, a landing half.
    least : that a landing draws all the same, where what is asserted is a share of them.
    """
    if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz":
        return count * _MORE
    return max((count + 1) // 2, least)
