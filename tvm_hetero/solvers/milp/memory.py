"""The MILP's memory: when something comes to a device, everything alive there must fit.

On a device d whose memory can overflow, tensors come with executions (outputs, and what no task
reads) and with hops into d: the *openers*. What is alive only grows when an opener starts, so it
is enough to look at those moments. Notation as in `timing`; A a *life*: what one opener o
brings to d, until its last use there.

    first[i, j]    opener i comes no later than opener j: start(i) <= start(j). Openers that
                   start at one moment get an order, too, and `rank` keeps it free of circles
    end[e, t, d]   >= end of the maker, of readers and of hops away, those that are on d
    gone[A, i]     the life is over when opener i starts: end <= start(i)
    alive[A, i]    bytes of A at the start of i, >= bytes(A) - M (1 - first[o, i] + gone[A, i])

    weights on d + sum over A of alive[A, i] <= memory + M (1 - i is there)    for every opener i

Lives are half open, so a life may end in the moment in which i starts, and a life without length
is over in its own beginning (then `gone` holds for its own opener). Unread outputs end with T.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_hetero.solvers.milp.disjunctions import Orders
from tvm_hetero.solvers.milp.model import ONE, ZERO, Linear, total
from tvm_hetero.solvers.milp.timing import Key, TimedActivity, TimingConstraints
from tvm_hetero.views.instance import Hop

# Memory is counted in thousandths of the capacity.
_UNITS = 1e3


@dataclass(frozen=True)
class MilpLifetime:
    """What `opener` brings: bytes (in units) where it takes place, until `end`.

    `closers` (activity, whether it uses the tensor on this device) decide the end; None: the
    makespan does.
    """

    name: str
    opener: TimedActivity
    nbytes: Linear
    most: float
    end: Linear
    closers: tuple[tuple[TimedActivity, Linear], ...] | None
    known_end: float | None


class MemoryRows:
    """The rows of every device whose memory can overflow.

    `count` says about how many pairs of a life and an opener there are; nothing is built where
    they are more than `most`: each takes a variable and some rows.
    """

    def __init__(self, timing: TimingConstraints, orders: Orders, most: float = math.inf) -> None:
        self.orders = orders
        self.timing = timing
        self.model = timing.model
        self.placement = timing.placement
        self.instance = timing.instance
        self.first: dict[tuple[Key, Key], Linear] = {}
        self.gone: list[tuple[int, MilpLifetime, TimedActivity, Linear]] = []
        self._ranks: dict[Key, Linear] = {}
        self._order: dict[Key, int] = self._known_ranks()
        bound = [d for d, binds in enumerate(self.instance.memory_binds) if binds]
        self.count = sum(len(self._openers(d)) ** 2 for d in bound)
        for d in bound if self.count <= most else ():
            self._add_device(d)

    # --- what comes to a device, and until when ----------------------------------------------

    def _openers(self, d: int) -> list[tuple[TimedActivity, Linear]]:
        """What can bring bytes to a device, with the literal that it does."""
        timing, place = self.timing, self.placement
        executions = [
            (timing.activities[e,], place.on[e, d])
            for e in range(len(timing.rows))
            if (e, d) in place.on
        ]
        hops = [timing.activities[key] for key in place.hops if key[2][1] == d]
        return [*executions, *((hop, hop.present) for hop in hops)]

    def _lives(self, d: int, unit: float) -> list[MilpLifetime]:
        lives = []
        for t, flow in enumerate(self.instance.tensors):
            for e in self.placement.candidates.of[flow.maker] if flow.nbytes else ():
                lives += self._lives_of(e, t, d, unit)
        for e, row in enumerate(self.timing.rows):
            nbytes = self.instance.unread[row.task] / self.instance.problem.batch / unit
            modes = [mode for mode in row.modes if mode.device == d]
            if nbytes and modes:
                size = total(nbytes * mode.size * self.placement.z[e, mode] for mode in modes)
                most = max(nbytes * mode.size for mode in modes)
                known = self.placement.start
                end = known.makespan / self.timing.unit if known else None
                opener = self.timing.activities[e,]
                life = MilpLifetime(
                    f"unread{e},{d}", opener, size, most, self.timing.makespan, None, end
                )
                lives.append(life)
        return lives

    def _lives_of(self, e: int, t: int, d: int, unit: float) -> list[MilpLifetime]:
        """A tensor of one candidate on one device: made there, or brought by some hop."""
        place, timing = self.placement, self.timing
        openers: list[tuple[TimedActivity, Linear, float]] = []
        here = [mode for mode in timing.rows[e].modes if mode.device == d]
        if here:
            sizes = {mode: place.nbytes(t, mode.size) / unit for mode in here}
            nbytes = total(sizes[mode] * place.z[e, mode] for mode in here)
            openers.append((timing.activities[e,], nbytes, max(sizes.values())))
        for key, taken in place.hops.items():
            if key[:2] == (e, t) and key[2][1] == d:
                sizes = {mode: place.nbytes(t, mode.size) / unit for mode in taken}
                nbytes = total(sizes[mode] * x for mode, x in taken.items())
                openers.append((timing.activities[key], nbytes, max(sizes.values())))
        if not openers:
            return []
        closers = self._closers(e, t, d)
        known = [a.known[1] for a, used in closers if a.known and self._hinted(used)]
        known_end = None if place.start is None else max(known, default=0.0)
        end = self.model.number(0.0, timing.horizon, f"end[{e},{t},{d}]", known_end)
        for activity, used in closers:
            self.model.at_least(end, activity.end + activity.last * (used - 1.0))
        name = f"{e},{t},{d}"
        return [
            MilpLifetime(f"{name},{i}", opener, nbytes, most, end, closers, known_end)
            for i, (opener, nbytes, most) in enumerate(openers)
        ]

    def _closers(self, e: int, t: int, d: int) -> tuple[tuple[TimedActivity, Linear], ...]:
        """Maker, readers and hops at a device, each with the literal that it is there."""
        place, timing = self.placement, self.timing
        found: list[tuple[TimedActivity, Linear]] = []
        if (e, d) in place.on:
            found.append((timing.activities[e,], place.on[e, d]))
        for f in place.readers(t):
            moves = [x for (_, k), x in place.moves[e, f].items() if k == d]
            if moves:
                found.append((timing.activities[f,], total(moves)))
        hops = [timing.activities[k] for k in place.hops if k[:2] == (e, t) and d in k[2]]
        return (*found, *((hop, hop.present) for hop in hops))

    # --- the rows of a device ----------------------------------------------------------------

    def _add_device(self, d: int) -> None:
        limit = self.instance.capacity[d] or 0
        unit = max(1, limit) / _UNITS
        openers, lives = self._openers(d), self._lives(d, unit)
        tasks = range(len(self.instance))
        held = [v for v in tasks if d in self.instance.devices[v] and self.instance.weights[v]]
        weights = total(
            self.instance.weights[v] / unit * self.placement.weights(v, d) for v in held
        )
        most = sum(self.instance.weights[v] for v in held) / unit + sum(a.most for a in lives)
        self.model.at_most(weights, limit / unit)
        for activity, there in openers:
            alive = total(self._alive(life, activity, d) for life in lives)
            slack = max(0.0, most - limit / unit)
            self.model.at_most(weights + alive + slack * (there - 1.0), limit / unit)
        self._add_working_sets(d, unit, weights)

    def _alive(self, life: MilpLifetime, i: TimedActivity, d: int) -> Linear:
        """Units of memory that a life takes when `i` starts there."""
        o = life.opener
        own = o.key == i.key
        late = ZERO if own else ONE - self._first(o, i)
        if late.constant >= 1 and not late.terms:
            return ZERO
        gone = self._gone(life, i, d)
        if not late.terms and not gone.terms:
            return life.nbytes
        known = None
        if self.placement.start is not None:
            away = self._hinted(late) or self._hinted(gone)
            known = 0.0 if away else self.model.hinted(life.nbytes)
        alive = self.model.number(0.0, life.most, f"alive[{life.name},{i.key}]", known)
        self.model.at_least(alive, life.nbytes - life.most * (late + gone))
        return alive

    def _first(self, a: TimedActivity, b: TimedActivity) -> Linear:
        """1 if `a` starts no later than `b`, and before it in the order of equals."""
        if (a.key, b.key) not in self.first:
            literal = self._order_literal(a, b)
            for i, j, yes in ((a, b, literal), (b, a, ONE - literal)):
                self.first[i.key, j.key] = yes
                if not yes.terms and yes.constant == 0:
                    continue
                self.model.at_least(j.start, i.start + max(0.0, i.late - j.early) * (yes - 1.0))
                count = float(len(self.timing.activities))
                self.model.at_least(
                    self._rank(j), self._rank(i) + 1.0 + (count + 1.0) * (yes - 1.0)
                )
        return self.first[a.key, b.key]

    def _order_literal(self, a: TimedActivity, b: TimedActivity) -> Linear:
        """A constant where the data flow orders the two."""
        if self.orders.flows(a.key, b.key):
            return ONE
        if self.orders.flows(b.key, a.key):
            return ZERO
        known = None
        if self.placement.start is not None:
            known = self._order[a.key] < self._order[b.key]
        return self.model.binary(f"first[{a.key},{b.key}]", known)

    def _rank(self, a: TimedActivity) -> Linear:
        if a.key not in self._ranks:
            count = float(len(self.timing.activities))
            known = None if self.placement.start is None else self._order[a.key]
            self._ranks[a.key] = self.model.number(0.0, count, f"rank[{a.key}]", known)
        return self._ranks[a.key]

    def _gone(self, life: MilpLifetime, i: TimedActivity, d: int) -> Linear:
        """1 only if the life is over when `i` starts."""
        if life.opener.key == i.key and i.least > 0:
            return ZERO
        if life.closers is None and i.least > 0:
            return ZERO
        known = None
        if life.known_end is not None:
            known = i.known is not None and life.known_end <= i.known[0] + 1e-9
        literal = self.model.binary(f"gone[{life.name},{i.key}]", known)
        self.model.at_least(i.start, life.end + self.timing.horizon * (literal - 1.0))
        self.gone.append((d, life, i, literal))
        return literal

    def _add_working_sets(self, d: int, unit: float, weights: Linear) -> None:
        """While a task runs, what it reads and writes is there beside all weights.

        Follows from the rows above; the linear program sees it only here.
        """
        instance, batch = self.instance, self.instance.problem.batch
        limit = (instance.capacity[d] or 0) / unit
        for e, row in enumerate(self.timing.rows):
            modes = [mode for mode in row.modes if mode.device == d]
            if not modes or any(self.placement.seconds(e, mode) <= 0 for mode in modes):
                continue
            tensors = (*instance.inputs[row.task], *instance.outputs[row.task])
            nbytes = sum(instance.tensors[t].nbytes for t in tensors) + instance.unread[row.task]
            work = total(
                nbytes / batch / unit * mode.size * self.placement.z[e, mode] for mode in modes
            )
            self.model.at_most(weights + work, limit)

    # --- the known schedule ------------------------------------------------------------------

    def _known_ranks(self) -> dict[Key, int]:
        """Positions of all activities by start; equal ones along the data flow."""
        position = {v: i for i, v in enumerate(self.instance.order)}
        rows = list(self.timing.activities.values())

        def key(i: int) -> tuple[float, int, int]:
            task = self.timing.rows[rows[i].key[0]].task
            return self.model.hinted(rows[i].start), position[task], i

        return {rows[i].key: n for n, i in enumerate(sorted(range(len(rows)), key=key))}

    def _hinted(self, literal: Linear) -> bool:
        return self.model.hinted(literal) > 0.5

    # --- what a solution decided -------------------------------------------------------------

    def arcs(self, values: list[float]) -> list[tuple[Key, Key, bool]]:
        """(a, b, whole): b starts after a's end (`whole`) or no earlier than a."""
        found: list[tuple[Key, Key, bool]] = []
        for d, life, i, literal in self.gone:
            there = [key for key in (i, life.opener) if self._is_at(key, d, values)]
            if literal.value(values) < 0.5 or len(there) < 2:
                continue
            closers = life.closers
            if closers is None:
                rows = self.timing.activities.values()
                closers = tuple((a, a.present) for a in rows if a.key != i.key)
            found += [(a.key, i.key, True) for a, used in closers if used.value(values) > 0.5]
        for (a, b), literal in self.first.items():
            both = [self.timing.activities[key].present.value(values) > 0.5 for key in (a, b)]
            if literal.value(values) > 0.5 and all(both):
                found.append((a, b, False))
        return found

    def _is_at(self, activity: TimedActivity, d: int, values: list[float]) -> bool:
        if len(activity.key) == 1:
            on = self.placement.on.get((activity.key[0], d), ZERO)
            return on.value(values) > 0.5
        hop: Hop = activity.key[2]
        return hop[1] == d and activity.present.value(values) > 0.5
