"""Who has which core: what a pool of cores tells to whoever looks at it."""

from __future__ import annotations

from collections.abc import Reversible
from typing import Protocol

Owners = tuple[str | None, ...]
"""The model that has each core of a pool; None: it is free."""


class OwnerLog(Protocol):
    """A pool of cores.

    Attributes
    ----------
    changes : when owners changed (by `time.monotonic`) and who they were from then on; the oldest
        first, and as many of the last ones as are kept.
    """

    @property
    def changes(self) -> Reversible[tuple[float, Owners]]: ...
