"""What models take on so many places: seconds by measured samples, or predicted until there are.

Cells, each with a sliding window of samples:

    L[model][items][places]     seconds from a query's start to its end
    P[model][places]            seconds between the ends of two items

A cell is worth the q90 of its window (`QUANTILE`), so that a promise holds nine times of ten: more
than a mean would, as Orloj (arXiv:2209.00159) argues. q90s of queries that wait for each other do
not add up: what others wait for is `typical`, by medians, and only who asks has its `margin` on
top. Fewer than `FEW` samples count as the largest of them and what was predicted. A cell without
samples is predicted by the plan's seconds, times the median of what measured cells of that model
take over what was predicted of them; other items than measured ones by L[1] + (items - 1) * P.

More places are never predicted slower than fewer (`paces` takes the best of at most k places): who
has k may leave some idle. Whoever runs a query on k places therefore asks `shape`, which is how
many it really uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tvm_hetero.errors import UsageError
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.util.quote import quote
from tvm_hetero.util.sliding_window import SlidingWindow
from tvm_hetero.util.statistics import quantile

QUANTILE = 0.9
WINDOW = 64
FEW = 5
MOST_CELLS = 512
"""Cells of a model that have samples: clients choose the items of a query."""
# What is left of a prediction after a refusal by it.
_DOUBT = 0.9
# Who allows so many times less than was ever measured and predicted, asks for what cannot be.
_ABSURD = 10.0
# The same where nothing was measured: predictions may be wrong, but not that wrong.
_WRONG = 100.0
# Quantiles are rounded to this share of themselves, so that cached rows outlive most samples.
_GRAIN = 1e-3

# A cell: what is measured, items (0 where they do not matter) and places.
_CellKey = tuple[int, int]


class UsefulShare(NamedTuple):
    """Seconds that a query typically takes on so many places; it may take `margin` more."""

    places: int
    seconds: float
    margin: float


class ModelTimes:
    """The cells of one model; `predicted` are fill and period on 1, 2, ... places."""

    def __init__(self, predicted: Sequence[Pace], switch: float = 0.0) -> None:
        if not predicted or not all(0 < p <= f < math.inf for f, p in predicted) or switch < 0:
            raise UsageError(
                "expected for 1, 2, ... places a fill and a period, 0 < period <= fill, and a "
                f"switch of at least 0 s; got {list(predicted)} and {switch}"
            )
        self.predicted = tuple(predicted)
        self.switch = switch
        self._samples: dict[_CellKey, SlidingWindow] = {}
        self._values: dict[_CellKey, float] = {}
        self._margins: dict[_CellKey, float] = {}
        self._rows: dict[int, tuple[Pace, ...]] = {}
        self._useful: dict[int, tuple[UsefulShare, ...]] = {}
        self._ratio = 1.0
        self._faith = 1.0  # in what is predicted
        self._least: dict[int, float] = {}  # that so many items have ever taken

    def add(self, items: int, places: int, seconds: float) -> None:
        """Take a sample of L, or of P where `items` is 0."""
        if not 0 < seconds < math.inf or not 1 <= places <= len(self.predicted) or items < 0:
            raise UsageError(
                f"expected a time above 0 on 1 to {len(self.predicted)} places, got "
                f"{seconds} s of {items} items on {places}"
            )
        key = (items, places)
        window = self._samples.get(key)
        if window is None:
            if len(self._samples) >= MOST_CELLS:
                self._forget_one()
            window = self._samples[key] = SlidingWindow(WINDOW)
        window.add(seconds)
        self._least[items] = min(seconds, self._least.get(items, math.inf))
        self._faith = min(1.0, max(self._faith, seconds / self._predicted(*key)))
        self._update(key)

    def doubt(self, items: int, allowed: float) -> None:
        """A query of so many seconds was refused by these times alone: doubt them.

        The oldest sample of each cell is forgotten. Else times that were bad once would refuse for
        ever, as what is refused is not measured. So would predictions: where there is no sample to
        forget, less is predicted, until such a query is taken and measured. Who allows absurdly
        little is no reason to.
        """
        measured, predicted = self._least.get(items), self._predicted(items, len(self.predicted))
        if allowed < (
            predicted / _WRONG if measured is None else min(measured, predicted) / _ABSURD
        ):
            return
        keys = [key for key in self._samples if key[0] in (0, 1, items)]
        if not any(key[0] == items for key in keys):
            self._faith *= _DOUBT
            self._change()
        for key in keys:
            self._samples[key].drop_oldest()
            if self._samples[key]:
                self._update(key)
            else:
                del self._samples[key], self._values[key], self._margins[key]
                self._change()

    def _forget_one(self) -> None:
        """The cell that was measured first; not L[1] or P, from which others are predicted."""
        key = next((key for key in self._samples if key[0] > 1), next(iter(self._samples)))
        del self._samples[key], self._values[key], self._margins[key]
        self._least.pop(key[0], None)

    def _update(self, key: _CellKey) -> None:
        window = self._samples[key]
        value = window.quantile(QUANTILE)
        if len(window) < FEW:
            value = max(window.largest, self._guess(*key))
        margin, grain = value - window.quantile(0.5), _GRAIN * value
        for kept, new in ((self._values, value), (self._margins, margin)):
            if key not in kept or abs(new - kept[key]) > grain:
                kept[key] = new
                self._change()

    def _change(self) -> None:
        self._ratio = self._median_ratio() if self._values else 1.0
        self._rows.clear()
        self._useful.clear()

    def paces(self, items: int) -> tuple[Pace, ...]:
        """Fill and period of so many items on at most 1, 2, ... places, never slower."""
        row = self._rows.get(items)
        if row is None:
            row = self._rows[items] = self._row(items)
        return row

    def useful_shares(self, items: int) -> tuple[UsefulShare, ...]:
        """Shares that are quicker than all smaller ones."""
        found = self._useful.get(items)
        if found is None:
            seconds = [pace.seconds(items) for pace in self.paces(items)]
            quicker = (k for k in range(len(seconds)) if k == 0 or seconds[k] < seconds[k - 1])
            found = self._useful[items] = tuple(
                UsefulShare(
                    k + 1, seconds[k] - self.margin(items, k + 1), self.margin(items, k + 1)
                )
                for k in quicker
            )
        return found

    def shape(self, items: int, places: int) -> int:
        """How many of so many places are worth using."""
        row = self.paces(items)
        return row.index(row[places - 1]) + 1

    def margin(self, items: int, places: int) -> float:
        """By how much (s) so many items on at most so many places may take longer than typically.

        What a cell is worth above the median of its samples; 0 if it has none.
        """
        return self._margins.get((items, self.shape(items, places)), 0.0)

    def typical(self, items: int, places: int) -> Pace:
        """As `paces` of so many places, by medians: what a query that others wait for takes."""
        pace, margin = self.paces(items)[places - 1], self.margin(items, places)
        if pace.fill - margin >= pace.period:
            return Pace(pace.fill - margin, pace.period)
        each = (pace.seconds(items) - margin) / items  # a period is no longer than the fill
        return Pace(each, each)

    def _row(self, items: int) -> tuple[Pace, ...]:
        found: list[Pace] = []
        for places in range(1, len(self.predicted) + 1):
            pace = self._pace(items, places)
            if found and found[-1].seconds(items) <= pace.seconds(items):
                pace = found[-1]
            found.append(pace)
        return tuple(found)

    def _pace(self, items: int, places: int) -> Pace:
        period = self._cell(0, places)
        if (items, places) in self._values:
            fill = self._values[items, places] - (items - 1) * period
        else:
            fill = self._cell(1, places)
        return Pace(max(fill, period), period)

    def _cell(self, items: int, places: int) -> float:
        value = self._values.get((items, places))
        return self._guess(items, places) * self._ratio if value is None else value

    def _guess(self, items: int, places: int) -> float:
        return self._predicted(items, places) * self._faith

    def _predicted(self, items: int, places: int) -> float:
        pace = self.predicted[places - 1]
        return pace.seconds(items) if items else pace.period

    def _median_ratio(self) -> float:
        ratios = [value / self._guess(*key) for key, value in self._values.items()]
        return quantile(sorted(ratios), 0.5)


class ServiceProfile:
    """The times of all models on up to `places` places each."""

    def __init__(self, models: Mapping[str, ModelTimes], places: int | None = None) -> None:
        if not models and places is None:
            raise UsageError("expected models, or the number of places that they are predicted on")
        self._models: dict[str, ModelTimes] = {}
        self.places = places or len(next(iter(models.values())).predicted)
        for name, times in models.items():
            self.add(name, times)

    def add(self, model: str, times: ModelTimes) -> None:
        """Know another model, or the same anew."""
        if len(times.predicted) != self.places:
            raise UsageError(
                f"expected models that are predicted on {self.places} places, got "
                f"{len(times.predicted)}"
            )
        self._models[model] = times

    def remove(self, model: str) -> None:
        """Forget a model."""
        self._models.pop(model, None)

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models."""
        return tuple(self._models)

    def times(self, model: str) -> ModelTimes:
        """The cells of a model.

        Raises
        ------
        UsageError
            If there is no such model.
        """
        found = self._models.get(model)
        if found is None:
            raise UsageError(f"no model {quote(model)}; there are {', '.join(self._models)}")
        return found

    def pace(self, model: str, items: int, places: int) -> Pace:
        """Fill and period of so many items on at most so many places."""
        return self.times(model).paces(items)[places - 1]

    def latency(self, model: str, items: int, places: int) -> float:
        """Seconds from start to end."""
        return self.pace(model, items, places).seconds(items)

    def least_latency(self, model: str, items: int) -> float:
        """Seconds on all places."""
        return self.latency(model, items, self.places)

    def least_share(self, model: str, items: int, seconds: float) -> int | None:
        """The fewest places on which so many items take at most `seconds`; None if none do."""
        for places, pace in enumerate(self.times(model).paces(items), 1):
            if pace.seconds(items) <= seconds:
                return places
        return None

    def typical_work(self, model: str, items: int, places: int) -> float:
        """Place-seconds of so many items on so many places, by medians."""
        times = self.times(model)
        for share in times.useful_shares(items):
            if share.places == places:
                return places * share.seconds
        return places * times.typical(items, places).seconds(items)
