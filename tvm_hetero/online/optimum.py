"""The exact best configuration of a chain, for given seconds of every block on every place.

Notation: n blocks, places e with seconds[b][e], which add up within a stage; W_e(i, j) is what
blocks i to j - 1 take on e. A *state* u says which places are used up.

    f(u, j) = least bottleneck of blocks 0 to j - 1 on the places of u
    f(0, 0) = 0
    f(u + e, j) = min over i < j of  max(f(u, i), W_e(i, j))                        -> `_extend`

Places that no other one excludes and that take the same seconds for every block are *alike*: of
them it matters only how many are used. Where places share cores, u is the set of cores in use.
This is exact: what exhaustive search would find if seconds are right, add up and stay (tests hold
the two against each other). Many unlike places make many states: beyond `_MOST_STATES` the order
of places is fixed (that of the current configuration, then the idle ones), and any of them may be
left out. Then nothing is proven, and `Optimum.proven` says so.

Literature: the chain partitioning of S. H. Bokhari, Partitioning problems in parallel, pipelined
and distributed computing, IEEE ToC 37 (1988), doi:10.1109/12.75137; with places of two kinds it
is what HeRAD (arXiv:2502.10000) solves without replication.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tvm_hetero.errors import UsageError
from tvm_hetero.online.configuration import Configuration, Place
from tvm_hetero.online.own_plan import Arrangement, OwnPlan
from tvm_hetero.views.array_types import FloatArray, IntArray

# Each takes about 0.4 ms for 150 blocks, and less than a tenth of that for 20.
_MOST_STATES = 1024
# Which places are used up: of each class how many, or which cores.
_State = tuple[int, ...]
Seconds = Sequence[Sequence[float]]


@dataclass(frozen=True)
class Optimum:
    """A best configuration, its bottleneck (s), and whether no other one has a smaller one."""

    configuration: Configuration
    bottleneck: float
    proven: bool


def stage_seconds(seconds: Seconds, configuration: Arrangement) -> tuple[float, ...]:
    """What each stage takes if blocks take `seconds[block][place]`."""
    if isinstance(configuration, OwnPlan):
        return tuple(
            math.fsum(share * row[place] for share, row in zip(shares, seconds, strict=True))
            for shares, place in zip(configuration.shares, configuration.places, strict=True)
        )
    return tuple(
        math.fsum(seconds[b][place] for b in range(first, last))
        for (first, last), place in zip(configuration.ranges, configuration.places, strict=True)
    )


def bottleneck(seconds: Seconds, configuration: Arrangement) -> float:
    """The seconds of the slowest stage."""
    return max(stage_seconds(seconds, configuration))


def find_optimum(
    seconds: Seconds,
    places: Sequence[Place],
    current: Configuration | None = None,
    slack: float | None = None,
) -> Optimum:
    """The configuration with the least bottleneck; among equals one with the fewest stages.

    Parameters
    ----------
    seconds : of each block on each place; infinite where it cannot run.
    slack : if given, the one with the MOST stages of those whose bottleneck is larger by no more
        than this share: a place that is in use shows how fast it is, an idle one does not.
    current : only looked at where there are too many states to prove anything, and then the
        answer is never worse.

    Raises
    ------
    UsageError
        If there are no blocks, a row has another number of places, or no place can run a block.
    """
    table = np.asarray(seconds, dtype=float)
    if table.ndim != 2 or table.shape != (len(seconds), len(places)) or not table.size:
        raise UsageError(f"expected seconds of every block on each of {len(places)} places")
    if not np.isfinite(table).any(axis=1).all() or not (table > 0).all():
        raise UsageError("each block takes a time above 0 on some place")
    apart = not any(a.excludes(b) for a, b in combinations(places, 2))
    space = _PlaceCounts(table) if apart else _CoresInUse(places)
    loads = _loads(table)
    if space.size <= _MOST_STATES:
        found = _search(space, loads, len(places), slack)
        if found is not None:
            return _checked(table, found, proven=True)
    return _in_order(table, loads, places, current)


def find_near(
    seconds: Seconds, places: Sequence[Place], current: Configuration, slack: float
) -> Configuration:
    """A best configuration that changes little: places keep their order if that costs no more.

    Parameters
    ----------
    slack : what keeping the order may cost, and what one more stage may (see `find_optimum`).
    """
    best = find_optimum(seconds, places, current, slack)
    table = np.asarray(seconds, dtype=float)
    same = _in_order(table, _loads(table), places, current)
    if same.bottleneck <= best.bottleneck * (1 + slack):
        return same.configuration
    return best.configuration


def _checked(table: FloatArray, found: Configuration, *, proven: bool) -> Optimum:
    return Optimum(found, bottleneck(table.tolist(), found), proven)


def _loads(table: FloatArray) -> list[FloatArray]:
    """W_e as a matrix [i, j] for each place; infinite where i >= j."""
    blocks = len(table)
    upper = np.triu(np.ones((blocks + 1, blocks + 1), dtype=bool), 1)
    found = []
    for column in table.T:
        finite = np.isfinite(column)
        total = np.concatenate([[0.0], np.cumsum(np.where(finite, column, 0.0))])
        bad = np.concatenate([[0], np.cumsum(~finite)])
        span = total[None, :] - total[:, None]
        open_ = upper & (bad[None, :] == bad[:, None])
        found.append(np.where(open_, span, math.inf))
    return found


class _PlaceCounts:
    """States where places exclude nobody: how many of each class of alike places are used."""

    def __init__(self, table: FloatArray) -> None:
        classes: dict[bytes, list[int]] = {}
        for e, column in enumerate(table.T):
            classes.setdefault(column.tobytes(), []).append(e)
        self.members = list(classes.values())
        self.start: _State = (0,) * len(self.members)
        self.size = math.prod(len(row) + 1 for row in self.members)

    def steps(self, state: _State) -> list[tuple[int, _State]]:
        """The next place that can be used, one of each class, and the state then."""
        return [
            (row[used], (*state[:k], used + 1, *state[k + 1 :]))
            for k, (row, used) in enumerate(zip(self.members, state, strict=True))
            if used < len(row)
        ]


class _CoresInUse:
    """States where places share cores: which cores are used, sorted."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.cores = [frozenset(place.cores) for place in places]
        self.start: _State = ()
        self.size = self._count()

    def steps(self, state: _State) -> list[tuple[int, _State]]:
        """Every place with free cores, and the state then."""
        used = frozenset(state)
        return [
            (e, tuple(sorted(used | own)))
            for e, own in enumerate(self.cores)
            if used.isdisjoint(own)
        ]

    def _count(self) -> int:
        """How many states there are, counted up to one more than there may be."""
        seen = {self.start}
        waiting = [self.start]
        while waiting and len(seen) <= _MOST_STATES:
            new = {after for _, after in self.steps(waiting.pop())} - seen
            seen |= new
            waiting += new
        return len(seen)


class _StageRow:
    """f(u, .) of a state, and for every j from where it came: row of before, first block, place."""

    def __init__(self, blocks: int) -> None:
        self.value: FloatArray = np.full(blocks + 1, math.inf)
        self.came: IntArray = np.zeros((3, blocks + 1), dtype=np.int64)

    def extend(self, before: _StageRow, number: int, e: int, load: FloatArray, most: float) -> None:
        """Put one stage on place e behind everything that row `number` reaches below `most`."""
        reached = np.maximum(before.value[:, None], load)
        origin = reached.argmin(axis=0)
        value = reached[origin, np.arange(len(origin))]
        better = (value < self.value) & (value < most)
        self.value[better] = value[better]
        self.came[:, better] = np.stack(
            [np.full(better.sum(), number), origin[better], np.full(better.sum(), e)]
        )


def _search(
    space: _PlaceCounts | _CoresInUse, loads: list[FloatArray], places: int, slack: float | None
) -> Configuration | None:
    """Stage by stage: all states that k stages reach, then k + 1; the least f(., n) of all.

    Layers make every state final before it is used, and the first best one has the fewest stages.
    """
    blocks = len(loads[0]) - 1
    first = _StageRow(blocks)
    first.value[0] = 0.0
    layers: list[dict[_State, _StageRow]] = [{space.start: first}]
    best, ends = math.inf, list[tuple[float, int, _StageRow]]()
    for _ in range(min(places, blocks)):
        after: dict[_State, _StageRow] = {}
        most = best if slack is None else best * (1 + slack) * (1 + 1e-12)
        for number, (state, row) in enumerate(layers[-1].items()):
            for e, target in space.steps(state):
                there = after.setdefault(target, _StageRow(blocks))
                there.extend(row, number, e, loads[e], most)
        layers.append(after)
        whole = min(after.values(), key=lambda row: row.value[blocks], default=first)
        value = float(whole.value[blocks])
        if value < math.inf:
            ends.append((value, len(layers) - 1, whole))
            best = min(best, value)
    if not ends:
        return None
    if slack is None:
        _, depth, row = next(end for end in ends if end[0] <= best * (1 + 1e-12))
    else:
        _, depth, row = [end for end in ends if end[0] <= best * (1 + slack)][-1]
    return _trace([list(layer.values()) for layer in layers[:depth]], row)


def _trace(layers: Sequence[Sequence[_StageRow]], row: _StageRow) -> Configuration:
    ends: list[int] = []
    used: list[int] = []
    j = len(row.value) - 1
    for layer in reversed(layers):
        ends.append(j)
        number, j, place = (int(x) for x in row.came[:, j])
        used.append(place)
        row = layer[number]
    return Configuration(tuple(reversed(ends)), tuple(reversed(used)))


def _in_order(
    table: FloatArray,
    loads: list[FloatArray],
    places: Sequence[Place],
    current: Configuration | None,
) -> Optimum:
    """The best with places in a fixed order, each used or left out; not proven.

    f(e, j) over the places in order; a place that shares a core with one before it in the order
    is left out of it, unless the current configuration uses it.
    """
    order = list(current.places) if current is not None else []
    speeds = [float(load[0, -1]) for load in loads]
    for e in sorted(range(len(places)), key=lambda e: (speeds[e], e)):
        if e not in order and not any(places[e].excludes(places[o]) for o in order):
            order.append(e)
    blocks = len(table)
    value = np.full(blocks + 1, math.inf)
    value[0] = 0.0
    origins: list[IntArray] = []
    for e in order:
        reached = np.maximum(value[:, None], loads[e])
        origin = reached.argmin(axis=0)
        new = reached[origin, np.arange(blocks + 1)]
        origins.append(np.where(new < value, origin, -1))
        value = np.minimum(value, new)
    if not math.isfinite(value[blocks]):
        raise UsageError("no places in a row can run all blocks; see which place lacks which")
    stages: list[tuple[int, int]] = []
    j = blocks
    for e, origin in zip(reversed(order), reversed(origins), strict=True):
        if origin[j] >= 0 and j > 0:
            stages.append((j, e))
            j = int(origin[j])
    stages.reverse()
    found = Configuration(tuple(end for end, _ in stages), tuple(e for _, e in stages))
    rows = table.tolist()
    if current is not None and bottleneck(rows, current) <= bottleneck(rows, found) * (1 + 1e-12):
        found = current
    return _checked(table, found, proven=False)
