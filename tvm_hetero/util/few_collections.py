"""Python looks for cycles of garbage less often: large graphs are many objects, all in use.

With its own thresholds it takes a large part of the time of a list scheduler on a large graph, and
of reading its costs.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

# New objects after which Python looks for cycles among them (its own number is 700).
_OBJECTS = 200_000


@contextmanager
def few_collections() -> Iterator[None]:
    """Look for cycles of garbage seldom within; a function may be decorated with it."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _OBJECTS) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
