"""The MILP's answer to when: starts, copies and data flow (latency, energy, cost).

Notation as in `placement`; times in units of `unit` seconds, of which the horizon H has
1,000. The *activities* are the candidates and, where anything can be in a copy's way, the hops.

    s[a]       start of activity a; end(a) = s[a] + its duration (0 if it does not take place)
    T          makespan

==================================================================  =====================
constraints                                                         added by
==================================================================  =====================
s[e] >= ready of its mode; T >= s[e] + duration + tail              `_add_execution`
s[f] >= end(e) + route of the move - M (1 - reads)                  `_add_arrival`
s[hop] >= end of the maker; >= end of the hop before - M (1 - hop)  `_add_hop`
s[f] >= end of the last hop - M (1 - move)                          `_add_arrival`
==================================================================  =====================

Every M is the latest end of the one less the earliest start of the other, but at least 0: a
negative M would order two activities that may come in any order. One thing at a time:
`disjunctions`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_hetero.solvers.milp.candidates import Mode
from tvm_hetero.solvers.milp.model import Linear, total
from tvm_hetero.solvers.milp.placement import Placement
from tvm_hetero.solvers.milp.time_windows import Windows
from tvm_hetero.views.instance import Hop, Instance

UNITS = 1e3
# A candidate, or a hop: (the candidate that makes the tensor, the tensor, the hop).
Key = tuple[int] | tuple[int, int, Hop]


@dataclass(frozen=True)
class TimedActivity:
    """An execution or hop that may take place.

    `early` and `late` bound its start, `last` its end, `least` its duration if it takes place;
    `known` are its start and end in the known schedule, `occupies` the resources by presence.
    """

    key: Key
    start: Linear
    seconds: Linear
    present: Linear
    occupies: dict[int, Linear]
    early: float
    late: float
    last: float
    least: float
    known: tuple[float, float] | None

    @property
    def end(self) -> Linear:
        """Its end."""
        return self.start + self.seconds


class TimingConstraints:
    """The activities, their windows and data flow, and the makespan."""

    def __init__(self, placement: Placement, windows: Windows, *, hops: bool) -> None:
        self.placement = placement
        self.model = placement.model
        self.instance: Instance = placement.instance
        self.rows = placement.candidates.rows
        self.windows = windows
        self.unit = (windows.horizon or 1.0) / UNITS
        self.horizon = windows.horizon / self.unit
        start = placement.start
        self.makespan = self.model.number(
            min(windows.path / self.unit, self.horizon),
            self.horizon,
            "T",
            start.makespan / self.unit if start else None,
        )
        self.activities: dict[Key, TimedActivity] = {}
        for e in range(len(self.rows)):
            self._add_execution(e)
        if hops:
            for e, t, hop in placement.hops:
                self._add_hop(e, t, hop)
            for e, t, hop in placement.hops:
                self._add_hop_order(e, t, hop)
        for e, f in placement.moves:
            self._add_arrival(e, f, hops=hops)

    # --- activities --------------------------------------------------------------------------

    def _add_execution(self, e: int) -> None:
        model, row, place, unit = self.model, self.rows[e], self.placement, self.unit
        lengths = {mode: self.units(place.seconds(e, mode)) for mode in row.modes}
        ready = {m: self.windows.ready[row.task][m.device] / unit for m in row.modes}
        tail = {m: self.windows.tail[row.task][m.device] / unit for m in row.modes}
        # One that does not take place may be anywhere; 0 is always there.
        early = min(ready.values(), default=0.0) if row.certain else 0.0
        last = max((self.horizon - tail[m] for m in row.modes), default=self.horizon)
        late = max((self.horizon - tail[m] - lengths[m] for m in row.modes), default=0.0)
        known = self._known(e)
        # Rounding may put the end of a window before its beginning.
        start = model.number(min(early, late), late, f"s[{e}]", self._hint(known, early))
        z = {mode: place.z[e, mode] for mode in row.modes}
        seconds = total(lengths[m] * z[m] for m in row.modes)
        activity = TimedActivity(
            (e,),
            start,
            seconds,
            place.present(e),
            self._engaged(e),
            early,
            late,
            last,
            min(lengths.values(), default=0.0),
            known,
        )
        self.activities[e,] = activity
        model.at_least(start, total(ready[m] * z[m] for m in row.modes))
        model.at_least(self.makespan, activity.end + total(tail[m] * z[m] for m in row.modes))

    def _engaged(self, e: int) -> dict[int, Linear]:
        """For each device, or core of teams, whether the execution keeps it busy."""
        found: dict[int, list[Linear]] = {}
        for d in self.rows[e].devices:
            for resource in self.instance.cores[d]:
                found.setdefault(resource, []).append(self.placement.on[e, d])
        return {r: row[0] if len(row) == 1 else total(row) for r, row in found.items()}

    def _known(self, e: int) -> tuple[float, float] | None:
        start = self.placement.start
        if start is None or e not in start.chosen:
            return None
        return start.chosen[e].start / self.unit, start.chosen[e].end / self.unit

    def _hint(self, known: tuple[float, float] | None, otherwise: float) -> float | None:
        """The start in the known schedule; of what does not take place there, `otherwise`."""
        if self.placement.start is None:
            return None
        return known[0] if known else otherwise

    def _add_hop(self, e: int, t: int, hop: Hop) -> None:
        """The hop's start; it waits for the maker whether it takes place or not."""
        place, unit = self.placement, self.unit
        taken = place.hops[e, t, hop]
        lengths = {m: self.hop_units(t, hop, m) for m in taken}
        maker = self.activities[e,]
        known = None
        if place.start and (e, t, hop) in place.start.hops:
            begin, end = place.start.hops[e, t, hop]
            known = (begin / unit, end / unit)
        early = maker.early + maker.least if self.rows[e].certain else 0.0
        name = f"s[{e},{t},{hop[0]},{hop[1]}]"
        hint = self._hint(known, maker.known[1] if maker.known else 0.0)
        start = self.model.number(min(early, self.horizon), self.horizon, name, hint)
        present = total(taken.values())
        activity = TimedActivity(
            (e, t, hop),
            start,
            total(lengths[m] * x for m, x in taken.items()),
            present,
            dict.fromkeys(self.instance.resources(hop), present),
            early,
            self.horizon,
            self.horizon,
            min(lengths.values()),
            known,
        )
        self.activities[e, t, hop] = activity
        self.model.at_least(start, maker.end)

    # --- data flow ---------------------------------------------------------------------------

    def _add_hop_order(self, e: int, t: int, hop: Hop) -> None:
        """After the hop before it on its route, which the maker's mode decides."""
        after = self.activities[e, t, hop]
        for before, modes in self._hops_before(e, t, hop).items():
            first = self.activities[e, t, before]
            taken = {m: self.placement.hops[e, t, hop][m] for m in modes}
            big = max(0.0, first.last - after.early)
            seconds = total(self.hop_units(t, before, m) * x for m, x in taken.items())
            some = total(taken.values())
            self.model.at_least(after.start, first.start + seconds + big * (some - 1.0))

    def _hops_before(self, e: int, t: int, hop: Hop) -> dict[Hop, list[Mode]]:
        found: dict[Hop, list[Mode]] = {}
        for mode in self.placement.hops[e, t, hop]:
            for k in range(len(self.instance.names)):
                route = self.placement.route(t, mode, k) or ()
                if hop in route[1:]:
                    before = found.setdefault(route[route.index(hop) - 1], [])
                    if mode not in before:
                        before.append(mode)
        return found

    def hop_units(self, t: int, hop: Hop, mode: Mode) -> float:
        return self.units(self.placement.hop_seconds(t, hop, mode.size))

    def units(self, seconds: float) -> float:
        """A time in units. What is longer than the horizon is out, however much longer."""
        return min(seconds / self.unit, 2 * UNITS)

    def _add_arrival(self, e: int, f: int, *, hops: bool) -> None:
        """f starts when every tensor that it reads from e is there."""
        maker, reader = self.activities[e,], self.activities[f,]
        moves = self.placement.moves[e, f]
        v, w = self.rows[e].task, self.rows[f].task
        reads = self.placement.reads[e, f]
        big = max(0.0, maker.last - reader.early)
        for t in self.instance.outputs[v]:
            if w not in self.instance.tensors[t].readers:
                continue
            delays = []
            last: dict[Hop, list[tuple[Mode, Linear]]] = {}
            for (mode, k), move in moves.items():
                route = self.placement.route(t, mode, k) or ()
                delays.append(sum(self.hop_units(t, hop, mode) for hop in route) * move)
                if hops and route and (e, t, route[-1]) in self.activities:
                    last.setdefault(route[-1], []).append((mode, move))
            # Without a read all moves are 0, and M covers the rest.
            self.model.at_least(reader.start, maker.end + total(delays) + big * (reads - 1.0))
            for hop, taken in last.items():
                self._add_last_hop(self.activities[e, t, hop], reader, t, hop, taken)

    def _add_last_hop(
        self,
        activity: TimedActivity,
        reader: TimedActivity,
        t: int,
        hop: Hop,
        taken: list[tuple[Mode, Linear]],
    ) -> None:
        seconds = total(self.hop_units(t, hop, mode) * move for mode, move in taken)
        big = max(0.0, activity.last - reader.early)
        some = total(move for _, move in taken)
        self.model.at_least(reader.start, activity.start + seconds + big * (some - 1.0))
