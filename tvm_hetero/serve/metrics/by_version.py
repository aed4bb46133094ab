"""Rows by model and version, for the newest versions of each: a server whose models are loaded
again and again does not grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_VERSIONS = 4  # of a model that are kept
R = TypeVar("R")


class ByVersion(Generic[R]):
    """Rows that are made when they are first asked for; the oldest versions' go.

    Parameters
    ----------
    make : a new row.
    """

    def __init__(self, make: Callable[[], R]) -> None:
        self._make = make
        self._models: dict[str, dict[str, R]] = {}

    def __iter__(self) -> Iterator[tuple[str, str, R]]:
        for model, versions in sorted(self._models.items()):
            for version, row in versions.items():
                yield model, version, row

    def row(self, model: str, version: str) -> R:
        """That of a version."""
        versions = self._models.setdefault(model, {})
        found = versions.get(version)
        if found is None:
            while len(versions) >= _VERSIONS:
                del versions[next(iter(versions))]
            found = versions[version] = self._make()
        return found

    def newest(self) -> Iterator[tuple[str, R]]:
        """That of each model's version that came last."""
        for model, versions in sorted(self._models.items()):
            yield model, next(reversed(versions.values()))
