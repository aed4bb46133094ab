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
    model, and a choice may be better than it says. Inputs that are held out only ever withdraw
    tasks: what calibration lets pass must hold on them too. With no task left the error is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tvm_hetero.errors import UsageError
from tvm_hetero.pipeline.precision.knapsack import fill_knapsack
from tvm_hetero.pipeline.precision.network_runner import NetworkRunner, NetworkTrace
from tvm_hetero.pipeline.precision.output_error import Metric, error_by, metric_name

_ROUNDS = 6
_ADDED = 16
# Of the budget that the model says, so that the first try mostly holds.
_CAUTION = 0.9

Inputs = Mapping[str, Any]
Tell = Callable[[int, int], None]


class CalibratedNetwork:
    """A network and the inputs on which its errors are measured.

    Parameters
    ----------
    runner : runs it.
    inputs, held_out : for calibration, and others.
    metric : what an error is.
    """

    def __init__(
        self,
        runner: NetworkRunner,
        inputs: Sequence[Inputs],
        held_out: Sequence[Inputs],
        metric: Metric | None,
    ) -> None:
        self._runner, self._metric = runner, metric
        runner.check_memory(len(inputs) + len(held_out))
        traces = [runner.trace(values) for values in (*inputs, *held_out)]
        for number, trace in enumerate(traces):
            self._check(trace, number, len(inputs))
        self._inputs, self._held_out = traces[: len(inputs)], traces[len(inputs) :]

    def _check(self, trace: NetworkTrace, number: int, count: int) -> None:
        """Refuse inputs that say nothing of errors, and a metric of which nothing is right."""
        apart = number >= count
        what = f"calibration: {'held-out ' if apart else ''}input {number - count * apart}"
        floats = [output for output in trace.outputs if output.dtype.kind == "f"]
        if any(np.isnan(output).any() for output in floats):
            raise UsageError(
                f"{what}: outputs are not numbers (NaN) in float32 already, so no error can be "
                "measured; give inputs that the model is for (--calibration X.npz)"
            )
        error = error_by(self._metric, trace.outputs, trace.outputs)
        if error > 0:
            raise UsageError(
                f"the metric {metric_name(self._metric)!r} gave {error:g} for equal outputs; "
                "expected 0"
            )

    def error(self, chosen: Collection[str]) -> float:
        """The largest error on the inputs for calibration with the `chosen` tasks in bfloat16."""
        return self._error(self._inputs, chosen) or 0.0

    def held_out_error(self, chosen: Collection[str]) -> float | None:
        """That on the inputs that are held out; None where there are none."""
        return self._error(self._held_out, chosen)

    def _error(self, traces: Sequence[NetworkTrace], chosen: Collection[str]) -> float | None:
        found = [
            error_by(self._metric, trace.outputs, self._runner.rerun(trace, chosen))
            for trace in traces
        ]
        return max(found, default=None)


@dataclass(frozen=True)
class ChosenTasks:
    """Tasks that are computed in bfloat16.

    Attributes
    ----------
    tasks : their ids, in order.
    alone : the error that each makes by itself.
    predicted : the error of all, by the model.
    measured, held_out : as it was measured.
    gain_bound : what no choice within the same budget gains more than (s).
    """

    tasks: tuple[str, ...]
    alone: Mapping[str, float]
    predicted: float
    measured: float
    held_out: float | None
    gain_bound: float


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
    search = _BudgetSearch(network, gains, alone, accuracy)
    everything = search.look(math.inf)
    if search.holds(everything):
        return everything
    return search.with_more(search.divide(everything))


@dataclass
class _BudgetSearch:
    """Budgets that held, and budgets that did not."""

    network: CalibratedNetwork
    gains: Mapping[str, float]
    alone: Mapping[str, float]
    accuracy: float

    def look(self, budget: float) -> ChosenTasks:
        """What the knapsack chooses within a budget of squares, measured."""
        names = list(self.gains)
        squares = [self.alone[name] * self.alone[name] for name in names]
        filling = fill_knapsack([self.gains[name] for name in names], squares, budget)
        return self._measured([names[i] for i in filling.chosen], filling.bound)

    def _measured(self, tasks: Sequence[str], bound: float) -> ChosenTasks:
        alone = {task: self.alone[task] for task in tasks}
        measured = self.network.error(tasks)
        held_out = self.network.held_out_error(tasks) if measured <= self.accuracy else None
        return ChosenTasks(tuple(tasks), alone, _root(alone), measured, held_out, bound)

    def with_more(self, found: ChosenTasks) -> ChosenTasks:
        """The choice and whatever of the other tasks still holds with it."""
        others = [task for task in self.gains if task not in found.alone]
        for task in sorted(others, key=lambda task: -self.gains[task])[:_ADDED]:
            tasks = [each for each in self.gains if each in found.alone or each == task]
            more = self._measured(tasks, found.gain_bound)
            found = more if self.holds(more) else found
        squares = [error * error for error in self.alone.values()]
        budget = math.fsum(found.alone[task] * found.alone[task] for task in found.tasks)
        filling = fill_knapsack(list(self.gains.values()), squares, budget)
        return replace(found, gain_bound=max(filling.bound, self._gain(found)))

    def holds(self, found: ChosenTasks) -> bool:
        """Whether the outputs of a choice are near enough, on all inputs."""
        return max(found.measured, found.held_out or 0.0) <= self.accuracy

    def divide(self, everything: ChosenTasks) -> ChosenTasks:
        """Look for the largest budget that holds, all tasks being too many."""
        best = ChosenTasks((), {}, 0.0, 0.0, self.network.held_out_error(()), 0.0)
        low, high = 0.0, math.fsum(e * e for e in everything.alone.values())
        worst = max(everything.measured, everything.held_out or 0.0)
        if 0 < high < math.inf and worst < math.inf:
            factor = worst / math.sqrt(high)
            allowed = self.accuracy / factor
            budget = min(high * _CAUTION, _CAUTION * allowed * allowed)
        else:
            budget = self.accuracy * self.accuracy
        for _ in range(_ROUNDS):
            found = self.look(budget)
            if self.holds(found):
                low, best = budget, max(best, found, key=self._gain)
            else:
                high = budget
            budget = (low + min(high, 2 * budget)) / 2
        return best

    def _gain(self, found: ChosenTasks) -> float:
        return math.fsum(self.gains[task] for task in found.tasks)


def _root(alone: Mapping[str, float]) -> float:
    return math.sqrt(math.fsum(error * error for error in alone.values()))
