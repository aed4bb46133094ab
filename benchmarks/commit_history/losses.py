"""Which figures are worse than they were, by more than a tenth.

A figure is compared with the best that the same machine has held: the least median of `_LAST` rows
one after the other (of all, where there are fewer). So ten losses of two per cent are a loss, too,
and one lucky row is no yardstick. It is lost if the median of its turns is above that by more than
a tenth. Noise is no excuse: whoever believes in a loss measures it again (`benchmarks.history`). A
loss that is meant is written into `accepted.json` with its reason: of that figure, rows up to that
moment no longer count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.commit_history.rows import HistoryRow
from benchmarks.commit_history.turns import Figure
from tvm_hetero.util.statistics import quantile

ALLOWED = 0.10
_LAST = 10
_ACCEPTED = Path(__file__).with_name("accepted.json")


@dataclass(frozen=True)
class Loss:
    """A figure, what it was, and whose figure that is."""

    name: str
    figure: Figure
    before: float
    whose: str

    @property
    def text(self) -> str:
        """In a line."""
        share = 100 * (self.figure.ratio / self.before - 1)
        return (
            f"{self.name}: {self.figure.ratio:.3f} ({self.figure.low:.3f} to "
            f"{self.figure.high:.3f}), was {self.before:.3f} ({self.whose}): {share:+.0f} %; up to "
            f"{100 * ALLOWED:g} % is let pass"
        )


@dataclass(frozen=True)
class AcceptedLoss:
    """A figure that is meant to be worse from a moment on (UTC, as rows have it), and why."""

    figure: str
    date: str
    why: str


def read_accepted(path: Path = _ACCEPTED) -> list[AcceptedLoss]:
    """The losses that are meant."""
    return [AcceptedLoss(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def comparable(
    history: Sequence[HistoryRow], machine: str, name: str, accepted: Sequence[AcceptedLoss] = ()
) -> list[float]:
    """The ratios of a figure on a machine since a loss was meant, oldest first."""
    since = max((each.date for each in accepted if each.figure == name), default="")
    return [row.figures[name].ratio for row in history
            if row.machine == machine and name in row.figures and row.date > since]  # fmt: skip


def best_held(ratios: Sequence[float]) -> float:
    """The least median of `_LAST` ratios one after the other; of all, if there are fewer."""
    windows = range(max(1, len(ratios) - _LAST + 1))
    return min(quantile(sorted(ratios[first : first + _LAST]), 0.5) for first in windows)


def losses(
    figures: Mapping[str, Figure],
    history: Sequence[HistoryRow],
    machine: str,
    whose: str = "best median of rows",
    accepted: Sequence[AcceptedLoss] = (),
) -> list[Loss]:
    """The figures that are lost; of those that no row has, nothing can be said."""
    found = []
    for name, figure in figures.items():
        ratios = comparable(history, machine, name, accepted)
        if ratios and figure.ratio > (1 + ALLOWED) * (before := best_held(ratios)):
            found.append(Loss(name, figure, before, whose))
    return found
