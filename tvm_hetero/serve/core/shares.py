"""Which model has which core now: what the pool of cores tells to whoever looks at it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class CoreShare:
    """One core.

    Attributes
    ----------
    core : its number, as the operating system counts.
    model : whose queries it computes; None: it is idle.
    since : since when, by `time.monotonic`.
    """

    core: int
    model: str | None
    since: float


@dataclass(frozen=True)
class ShareSnapshot:
    """All cores of the pool, by number."""

    cores: tuple[CoreShare, ...]

    def count(self) -> dict[str, int]:
        """How many cores each model has that has one."""
        found: dict[str, int] = {}
        for core in self.cores:
            if core.model is not None:
                found[core.model] = found.get(core.model, 0) + 1
        return found


# Cheap enough to be asked several times a second, from the event loop's thread.
ShareSource = Callable[[], ShareSnapshot]
