"""Which tasks are computed in bfloat16, so that outputs stay near those of float32.

Problem
    Task t gains g(t) seconds in bfloat16, and its change alone makes the error e(t) of the outputs,
    measured on inputs for calibration. Which tasks gain the most while all together make an error
    of at most A?

Model
    Errors of roundings are independent, so that of a set S is about the root of the sum of their
    squares. A knapsack of the weights e(t)^2 chooses the tasks (`knapsack`), within a budget B.

        predicted(S) = sqrt(sum of e(t)^2 over S)

    Over all tasks that gain the model is off by some factor f, which is measured; the first budget
    is (A / f)^2.

Belief
    No choice is believed before the whole network was run with it. All tasks come first: where they
    keep A, nothing is left to choose. Then budgets are halved between the largest that held and the
    smallest that did not, `_ROUNDS` times; and of the tasks that are left those are added, the most
    gaining ones first, with which the accuracy still holds (`_ADDED` are tried): squares are a
    model, and a choice may be better than it says.

Promise
    A few inputs for calibration say little of the worst of many. So up to `TRIES` choices are made,
    each within a smaller error on calibration than the one before, and the first one that keeps A
    on every input that is held out is taken: none of their errors, nor what their tail says of one
    input in a thousand, may be above A (`rare_errors`). Which choices are tried depends on the
    inputs for calibration alone, so that their number is all that the others' bound pays for. With
    no task left the error is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tvm_hetero.pipeline.precision.calibrated_network import CalibratedNetwork, Checked
from tvm_hetero.pipeline.precision.knapsack import fill_knapsack
from tvm_hetero.pipeline.precision.rare_errors import exceeding_share, rare_error

# Choices that held-out inputs may judge, and the share of an error that the next one is within.
TRIES, _STEP = 8, 0.7
_ROUNDS = 6
_ADDED = 16
# Of the budget that the model says, so that the first try mostly holds.
_CAUTION = 0.9

_UNCHECKED = Checked((), complete=True)

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class ChosenTasks:
    """Tasks that are computed in bfloat16.

    Attributes
    ----------
    tasks : their ids, in order.
    alone : the error that each makes by itself.
    predicted : the error of all, by the model.
    measured : as it was, on inputs for calibration.
    gain_bound : what no choice within the same budget gains more than (s).
    checked : errors on inputs that are held out.
    """

    tasks: tuple[str, ...]
    alone: Mapping[str, float]
    predicted: float
    measured: float
    gain_bound: float
    checked: Checked = _UNCHECKED

    @property
    def held_out(self) -> float | None:
        """The largest error on inputs that are held out; None where there are none."""
        return self.checked.worst

    @property
    def rare(self) -> float | None:
        """The error of one input in a thousand, as those that are held out let expect it."""
        return rare_error(self.checked.errors) if self.checked.errors else None

    @property
    def exceeding(self) -> float:
        """The share of inputs that may exceed the accuracy (`exceeding_share`)."""
        return exceeding_share(len(self.checked.errors), TRIES) if self.tasks else 0.0


def choose_tasks(
    network: CalibratedNetwork,
    gains: Mapping[str, float],
    accuracy: float,
    tell: Tell = lambda done, total: None,
) -> ChosenTasks:
    """Choose the tasks that gain the most within an error.

    Parameters
    ----------
    network
        Where errors are measured.
    gains
        Of each task that gains in bfloat16: seconds, above 0.
    accuracy
        The largest error that the outputs may have.
    tell
        Told of each task that has been tried by itself.
    """
    alone: dict[str, float] = {}
    for done, task in enumerate(gains, start=1):
        alone[task] = network.error([task])
        tell(done, len(gains))
    search = _BudgetSearch(network, gains, alone)
    for found in search.choices(accuracy):
        found = replace(found, checked=network.check(found.tasks, accuracy))
        if found.checked.complete and (found.rare or 0.0) <= accuracy:
            return found
    return _NOTHING


_NOTHING = ChosenTasks((), {}, 0.0, 0.0, 0.0)


@dataclass
class _BudgetSearch:
    """Choices by their errors on inputs for calibration."""

    network: CalibratedNetwork
    gains: Mapping[str, float]
    alone: Mapping[str, float]
    known: dict[tuple[str, ...], float] = field(default_factory=dict)

    def choices(self, accuracy: float) -> Iterator[ChosenTasks]:
        """Up to `TRIES` choices that differ, each within a smaller error than the one before."""
        everything = self.look(math.inf)
        allowed = min(accuracy, everything.measured)
        tried: set[tuple[str, ...]] = {()}
        for number in range(TRIES):
            found = self.within(everything, allowed * _STEP**number)
            if found.tasks not in tried:
                yield found
            tried.add(found.tasks)

    def within(self, everything: ChosenTasks, accuracy: float) -> ChosenTasks:
        """The choice that gains the most within an error."""
        if everything.measured <= accuracy:
            return everything
        return self.with_more(self.divide(everything, accuracy), accuracy)

    def look(self, budget: float) -> ChosenTasks:
        """What the knapsack chooses within a budget of squares, measured."""
        names = list(self.gains)
        squares = [self.alone[name] * self.alone[name] for name in names]
        filling = fill_knapsack([self.gains[name] for name in names], squares, budget)
        return self._measured([names[i] for i in filling.chosen], filling.bound)

    def _measured(self, tasks: Sequence[str], bound: float) -> ChosenTasks:
        alone = {task: self.alone[task] for task in tasks}
        key = tuple(tasks)
        if key not in self.known:  # the next try asks for some of the same
            self.known[key] = self.network.error(key)
        return ChosenTasks(key, alone, _root(alone), self.known[key], bound)

    def with_more(self, found: ChosenTasks, accuracy: float) -> ChosenTasks:
        """The choice and whatever of the other tasks still holds with it."""
        others = [task for task in self.gains if task not in found.alone]
        for task in sorted(others, key=lambda task: -self.gains[task])[:_ADDED]:
            tasks = [each for each in self.gains if each in found.alone or each == task]
            more = self._measured(tasks, found.gain_bound)
            found = more if more.measured <= accuracy else found
        squares = [error * error for error in self.alone.values()]
        budget = math.fsum(found.alone[task] * found.alone[task] for task in found.tasks)
        filling = fill_knapsack(list(self.gains.values()), squares, budget)
        return replace(found, gain_bound=max(filling.bound, self._gain(found)))

    def divide(self, everything: ChosenTasks, accuracy: float) -> ChosenTasks:
        """Look for the largest budget that holds, all tasks being too many."""
        best = _NOTHING
        low, high = 0.0, math.fsum(e * e for e in everything.alone.values())
        if 0 < high < math.inf and everything.measured < math.inf:
            factor = everything.measured / math.sqrt(high)
            allowed = accuracy / factor
            budget = min(high * _CAUTION, _CAUTION * allowed * allowed)
        else:
            budget = accuracy * accuracy
        for _ in range(_ROUNDS):
            found = self.look(budget)
            if found.measured <= accuracy:
                low, best = budget, max(best, found, key=self._gain)
            else:
                high = budget
            budget = (low + min(high, 2 * budget)) / 2
        return best

    def _gain(self, found: ChosenTasks) -> float:
        return math.fsum(self.gains[task] for task in found.tasks)


def _root(alone: Mapping[str, float]) -> float:
    return math.sqrt(math.fsum(error * error for error in alone.values()))
