"""How many examples a property is tried on.

A landing has time for few; `make fuzz`, which looks for faults, draws ten times as many. Without
this a number of its own would hold in both.
"""

from __future__ import annotations

import os

_MORE = 10


def draws(count: int) -> int:
    """So many examples in a landing, more in a fuzz run."""
    return count * (_MORE if os.environ.get("HYPOTHESIS_PROFILE") == "fuzz" else 1)
