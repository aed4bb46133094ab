"""Is there a schedule of a piece that takes less than a limit L? Windows first, then CP-SAT.

That a limit cannot be kept is often shown in a second where raising a bound to it takes minutes,
for L itself says much: with heads and tails of programs that know L (`bounds.latency.nested`),

    head(v, d) <= end of v            if v runs on d and T < L
    tail(v, d) <= T - end of v        likewise; head + tail >= L: v is not on d

Often these leave some task no device. Where they do not, CP-SAT looks for one schedule within L,
each x(v, d) bringing its window with it. On modules of RandWire-32 (Barabasi-Albert), which have
hubs and else tasks that are all alike, the search for the least makespan is left with a gap; that
nothing is a few per cent below its value the windows show by themselves, and soon.

Rounding. A schedule in exact times that takes less than L takes at most L q + slack ticks in the
same order (see `core.integer_scaling`), where starts and the ways to the end are q times as late
and long, or more. So L q + slack, rounded down to a whole tick, is the horizon, and windows are
rounded down, less a tick.

The idea of bounding by refuting one limit after the other: R. Klein and A. Scholl, Computing lower
bounds by destructive improvement, EJOR 112, 1999, doi:10.1016/S0377-2217(97)00442-6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_hetero.bounds.core.linear import WORK_A_SECOND
from tvm_hetero.bounds.latency.nested import Nested
from tvm_hetero.bounds.latency.precedence import work_of
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.solvers.core.cpsat_run import WORK_PER_SECOND, CpsatBudget, run
from tvm_hetero.solvers.core.integer_scaling import FINE, Ticks
from tvm_hetero.solvers.core.options import Options
from tvm_hetero.solvers.cpsat.batch import resolution
from tvm_hetero.solvers.cpsat.model import BatchModel
from tvm_hetero.solvers.lists.partial_schedule import Solution, solution
from tvm_hetero.views.array_types import FloatArray
from tvm_hetero.views.arrays import Figures, figures_of
from tvm_hetero.views.modularity import Piece

# Devices up to which there is a program for each task and device.
_MOST_DEVICES = 6
# How far below a value a limit must be for a solution of that value not to fit into the rounding,
# and the rounding itself: parts of the value.
LEAST, _ERROR = 0.5 * FINE, 0.1 * FINE
# Numbers of programs for one unit of work: many of them are small, and 100,000 to 130,000 numbers
# took a second of a shared core.
_NUMBERS = 1.25 * WORK_A_SECOND / WORK_PER_SECOND


@dataclass(frozen=True)
class FeasibilityVerdict:
    """Whether nothing is within the limit, or a solution that (up to rounding) is, or neither."""

    refuted: bool
    found: Solution | None = None


def programs_work(piece: Piece) -> float:
    """About the work of a piece's windows; inf where there are none to be had."""
    count, k = len(piece), len(piece.names)
    if k > _MOST_DEVICES or not _one_element(piece):
        return math.inf
    edges = sum(len(flow.readers) for flow in piece.tensors)
    return count * k * work_of(figures_of(piece), count, edges) / 2 / _NUMBERS


def refute(
    piece: Piece, limit: float, options: Options, budget: CpsatBudget, *, linear: int = 0
) -> FeasibilityVerdict:
    """Whether a piece has a schedule that takes less than `limit` (s), if it can be told."""
    if budget.exhausted():
        return FeasibilityVerdict(refuted=False)
    figures = figures_of(piece)
    nested = Nested(Subgraph.whole(figures), limit, round(max(0.0, budget.work) * _NUMBERS))
    none = nested.bound() >= limit
    budget.work -= nested.used / _NUMBERS
    if none:
        return FeasibilityVerdict(refuted=True)
    if budget.exhausted():
        return FeasibilityVerdict(refuted=False)
    ticks = resolution(piece, math.inf, _ERROR)
    model = BatchModel(piece, ticks, math.floor(limit * ticks.per_second + ticks.slack))
    add_windows(model, figures, nested.part, limit)
    outcome = run(model.model, options, budget, linear=linear)
    if not outcome.found:
        return FeasibilityVerdict(refuted=outcome.infeasible and model.exact)
    placement, starts, hops = model.read(outcome.solver.value)
    spans = [(s, s + model.run(v, placement[v])) for v, s in enumerate(starts)]
    times = {(t, hop): (s, s + model.hop(t, hop)) for (t, hop), s in hops.items()}
    return FeasibilityVerdict(refuted=False, found=solution(piece, placement, spans, times))


def add_windows(model: BatchModel, figures: Figures, part: Subgraph, limit: float) -> None:
    """Add the heads and tails of `part`, a whole piece for makespans below `limit`."""
    place = {v: i for i, v in enumerate(figures.tasks)}
    ticks = model.ticks
    for (v, d), x in model.x.items():
        i = place[v]
        if not part.head[i, d] + part.tail[i, d] < limit:
            model.model.add(x == 0)
            continue
        begin = _down(part.head[i, d] - part.least[i, d], ticks)
        rest = _down(part.tail[i, d], ticks)
        model.model.add(model.s[v] >= begin).only_enforce_if(x)
        model.model.add(model.makespan >= model.e[v] + rest).only_enforce_if(x)


def _down(seconds: FloatArray, ticks: Ticks) -> int:
    return max(0, math.floor(float(seconds) * ticks.per_second) - 1)


def _one_element(piece: Piece) -> bool:
    """Whether the programs' times are the piece's own (see `figures_of`)."""
    return figures_of(piece).batch == 1
