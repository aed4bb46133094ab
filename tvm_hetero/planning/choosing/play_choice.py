"""A choice is played: every request of every class, on the replicas that were chosen.

Nothing that the program believed is used but the replicas and their shares. A class's circle is
divided among its replicas in proportion to what they carry, so that each has a share of at most
c(k, o); each is played by the simulator of ``tvm-hetero simulate``. What counts is what all of a
class's requests together make of the SLO, and that every replica could go on so for ever: they come
again and again, and a queue that is worked off only because no more requests come is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tvm_hetero.planning.choosing.arrivals import UNITS, marks_of, members_of
from tvm_hetero.planning.choosing.options import RatedOption
from tvm_hetero.planning.choosing.program import Replicas
from tvm_hetero.planning.choosing.rate import holds, mean_watts, reached, repeat_share
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.choosing.request import ChoiceRequest, SloLimit
from tvm_hetero.planning.choosing.steady import arrival_seconds, steady_rate, use_of
from tvm_hetero.solvers.core.deadline import Deadline, check_left


@dataclass(frozen=True)
class PlayedClass:
    """What a simulation of a class saw.

    Attributes
    ----------
    reached : for each limit the seconds that its percentage of the requests is within.
    holds : whether every limit does, and `busiest` is below 1.
    watts : of its replicas in the mean, NaN where they are not known.
    busiest : the mean rate of the busiest replica as a part of what it can go on answering.
    """

    served: int
    reached: Mapping[SloLimit, float]
    holds: bool
    watts: float
    busiest: float

    @property
    def strain(self) -> float:
        """The largest part of a limit that is used up: at most 1 where the SLO holds."""
        return max(
            seconds / limit.seconds if limit.seconds else math.inf
            for limit, seconds in self.reached.items()
        )


_Pool = tuple[tuple[RatedOption, int], ...]


class ChoicePlayer:
    """Plays choices of one question; a class with the same replicas is played once.

    Attributes
    ----------
    refuted : all replicas of a class with which it broke its SLO, each once.
    """

    def __init__(self, request: ChoiceRequest, ends: Deadline | None = None) -> None:
        self.request, self.ends = request, ends
        self.refuted: list[Replicas] = []
        self._rates: dict[tuple[int, str], float] = {}
        self._known: dict[tuple[int, tuple[tuple[str, int, int], ...]], PlayedClass] = {}

    def play(self, replicas: Replicas) -> tuple[PlayedClass, ...]:
        """All classes in order; each has replicas.

        Raises
        ------
        SolverError
            If `ends` has passed.
        """
        return tuple(
            self._class(k, tuple(row for row in replicas if row[0].served == k))
            for k in range(len(self.request.classes))
        )

    def _class(self, k: int, pool: _Pool) -> PlayedClass:
        key = (k, tuple((rated.option.name, rated.capacity, n) for rated, n in pool))
        if key not in self._known:
            self._known[key] = self._play(k, pool)
            if not self._known[key].holds:
                self.refuted.append(pool)
        return self._known[key]

    def _play(self, k: int, pool: _Pool) -> PlayedClass:
        served, seconds = self.request.classes[k], self.request.seconds
        marks, period = marks_of(len(served.requests)), arrival_seconds(served, seconds)
        every: dict[str, list[float]] = {limit.figure: [] for limit in served.slo}
        watts, busiest = 0.0, 0.0
        for option, begin, length in divide_circle(pool):
            members = [served.requests[i] for i in members_of(marks, begin, length)]
            check_left(self.ends, "choose", f"while the load of {served.name!r} is played")
            outcome = repeat_share(option, members, period)
            for figure, values in every.items():
                values += outcome.figures[figure]
            watts += mean_watts(option, outcome, served, seconds)
            steady = self._steady(k, option)
            # An interval may have a request more than its share.
            use = max(use_of(steady, length, served, seconds), len(members) / period / steady)
            busiest = max(busiest, use)
        return PlayedClass(
            k,
            {limit: reached(limit, every) for limit in served.slo},
            busiest < 1 and all(holds(limit, every) for limit in served.slo),
            watts,
            busiest,
        )

    def _steady(self, k: int, option: ReplicaOption) -> float:
        key = (k, option.name)
        if key not in self._rates:
            self._rates[key] = steady_rate(option, self.request.classes[k])
        return self._rates[key]


def divide_circle(
    pool: Sequence[tuple[RatedOption, int]],
) -> Iterator[tuple[ReplicaOption, int, int]]:
    """The interval of each replica, in `UNITS`: begin and length."""
    every = [rated for rated, count in pool for _ in range(count)]
    total = sum(rated.capacity for rated in every)
    before = 0
    for rated in every:
        begin, end = (UNITS * each // total for each in (before, before + rated.capacity))
        before += rated.capacity
        yield rated.option, begin, end - begin
