"""Which figures are worse than they were, by more than a tenth and more than their noise.

A figure is compared with the median of the last rows of the same machine. It is lost if even the
better quartile of its turns is above that median by more than a tenth and half of the rows' own
interquartile range: once is not enough, so whoever believes in a loss measures it again
(`benchmarks.history`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.commit_history.rows import HistoryRow
from benchmarks.commit_history.turns import Figure
from tvm_hetero.util.statistics import quantile

ALLOWED = 0.10
_LAST = 10  # rows that a figure is compared with
_FEW = 4  # of fewer rows the noise is not known


@dataclass(frozen=True)
class Loss:
    """A figure, what it was (the median of rows before), and the most that it might be."""

    name: str
    figure: Figure
    before: float
    limit: float

    @property
    def text(self) -> str:
        """In a line."""
        share = 100 * (self.figure.ratio / self.before - 1)
        return (
            f"{self.name}: {self.figure.ratio:.3f} (of its turns a quarter is below "
            f"{self.figure.low:.3f}), was {self.before:.3f}: {share:+.0f} %; up to "
            f"{self.limit:.3f} is let pass"
        )


def comparable(history: Sequence[HistoryRow], machine: str, name: str) -> list[float]:
    """The last ratios of a figure on a machine, oldest first."""
    rows = [row.figures[name].ratio for row in history
            if row.machine == machine and name in row.figures]  # fmt: skip
    return rows[-_LAST:]


def losses(
    figures: Mapping[str, Figure], history: Sequence[HistoryRow], machine: str
) -> list[Loss]:
    """The figures that are lost; of those that no row has, nothing can be said."""
    found = []
    for name, figure in figures.items():
        ratios = sorted(comparable(history, machine, name))
        if not ratios:
            continue
        before = quantile(ratios, 0.5)
        limit = (1 + ALLOWED) * before + _noise(ratios)
        if figure.low > limit:
            found.append(Loss(name, figure, before, limit))
    return found


def _noise(ordered: Sequence[float]) -> float:
    """Half of the interquartile range."""
    if len(ordered) < _FEW:
        return 0.0
    return (quantile(ordered, 0.75) - quantile(ordered, 0.25)) / 2
