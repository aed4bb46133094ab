"""Contiguous stages when the order of the devices is given: a program whose relaxation is close.

Let device d be stage s = 0 .. k - 1 of a pipeline (stages may be empty), and v a block of tasks
(`views.ideals.contract`). With

    E(v, s) = 1   v is in stage s or an earlier one;  E(v, -1) = 0, E(v, k - 1) = 1
    P(v, s) = E(v, s) - E(v, s - 1),  v is in stage s
    need(t, a, b)  tensor t is made in stage a and read in stage b

minimise T subject to

    E(v, s) <= E(v, s + 1)                     stages follow each other      -> `_add_prefixes`
    E(w, s) <= E(v, s)                         w reads from v                -> `_add_prefixes`
    need(t, a, b) >= P(v, a) + P(w, b) - 1     v makes t, w reads it         -> `_add_needs`
    y(t, hop) >= need(t, a, b)                 the hops from a to b          -> `_hop`
    load of every device and exclusive link <= T                             -> `_add_loads`
    weights, outputs and arrivals of a device <= its memory                  -> `_add_memory`

This is exact. `device_orders` searches among orders.

Derivation: docs/method/fixed-order-stages.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.solvers.milp.model import ONE, ZERO, Linear, MilpModel, total
from tvm_hetero.views.ideals import Blocks
from tvm_hetero.views.instance import Hop, Instance

# What `most` is in the model: loads and bytes up to a thousand, as its solvers like them.
_WHOLE = 1000.0


class StageOrder:
    """The model at the head of this file.

    Parameters
    ----------
    blocks : all but inputs and outputs.
    order : the devices that may run a block, as stages.
    most : only plans of at most this value are looked for, s; above 0.
    plain : whether copies keep nothing busy, memory is ample and links are everywhere.
    """

    def __init__(
        self, instance: Instance, blocks: Blocks, order: Sequence[int], most: float, *, plain: bool
    ) -> None:
        self.instance = instance
        self.blocks = blocks
        self.order = tuple(order)
        self.unit = most / _WHOLE
        self.most = most
        self.model = MilpModel()
        self.rank = {d: s for s, d in enumerate(order)}
        self.top = self.model.number(0.0, _WHOLE, "T")
        self.model.objective = self.top
        self.place: dict[tuple[int, int], Linear] = {}
        self.held: dict[int, list[Linear]] = {}
        self.busy: dict[int, list[Linear]] = {}
        self._hops: dict[tuple[int, Hop], Linear] = {}
        self._add_prefixes()
        if not plain:
            self._add_ends()
            for t in range(len(instance.tensors)):
                self._add_needs(t)
        self._add_loads()
        if not plain:
            self._add_memory()

    def relaxed(self) -> MilpModel:
        """The same without integrality."""
        return replace(self.model, integer=[False] * len(self.model.integer))

    def bound(self, outcome_bound: float) -> float:
        """What a bound of the model proves of all plans in this order, s; at most `most`."""
        return max(0.0, min(outcome_bound, _WHOLE) * self.unit)

    def read(self, values: list[float], threshold: float = 0.5) -> list[int]:
        """The placement, E rounded at a threshold; inputs and outputs are left out (-1)."""
        placement = [-1] * len(self.instance)
        for b, members in enumerate(self.blocks.members):
            early = (e.value(values) >= threshold for e in self.early[b])
            device = next(d for d, yes in zip(self.order, early, strict=True) if yes)
            for v in members:
                placement[v] = device
        return placement

    def thresholds(self, values: list[float], count: int) -> list[float]:
        """Up to `count` values that E takes, at which rounding gives different plans."""
        found = {round(e.value(values), 6) for row in self.early for e in row}
        inner = sorted(x for x in found if 1e-5 < x < 1 - 1e-5)
        step = max(1, -(-len(inner) // count))
        return [x - 1e-6 for x in [*inner[::step], 1.0]]

    def _add_prefixes(self) -> None:
        """E, from the first block to the last, so that what a block reads comes before it."""
        instance, last = self.instance, len(self.order) - 1
        self.early: list[list[Linear]] = []
        for b, members in enumerate(self.blocks.members):
            row: list[Linear] = []
            for s, d in enumerate(self.order):
                before = row[-1] if row else ZERO
                seconds = sum(instance.seconds[v][d] for v in members)
                if s == last:
                    if not seconds <= self.most:
                        self.model.equal(before, ONE)
                    row.append(ONE)
                elif not seconds <= self.most:
                    row.append(before)
                else:
                    row.append(self.model.binary(f"early{b},{s}"))
                    self.model.at_least(row[-1], before)
            self.early.append(row)
            for s, d in enumerate(self.order):
                here = row[s] - row[s - 1] if s else row[s]
                self.place.update({(v, d): here for v in members})
            for a in self.blocks.before[b]:
                for s in range(last):
                    if row[s] is not self.early[a][s]:
                        self.model.at_least(self.early[a][s], row[s])

    def _add_ends(self) -> None:
        """Inputs and outputs, which have no color and take no time, are on any device."""
        for v in sorted(self.instance.terminals):
            devices = self.instance.devices[v]
            alone = len(devices) == 1
            row = [ONE if alone else self.model.binary(f"end{v},{d}") for d in devices]
            self.place.update({(v, d): x for d, x in zip(devices, row, strict=True)})
            self.model.equal(total(row), ONE)

    def _add_needs(self, t: int) -> None:
        """What a tensor's hops follow from, and the hops."""
        instance, model = self.instance, self.model
        flow = instance.tensors[t]
        ends = instance.terminals
        devices = range(len(instance.names))
        leaving: dict[tuple[int, bool], list[Linear]] = {}
        arriving: dict[tuple[int, bool], list[Linear]] = {}
        for a in devices:
            if (flow.maker, a) not in self.place:
                continue
            for b in devices:
                readers = [w for w in flow.readers if (w, b) in self.place]
                if flow.maker not in ends and a in self.rank and b in self.rank:
                    # Nothing leads back but to an output.
                    back = self.rank[b] < self.rank[a]
                    readers = [w for w in readers if not back or w in ends]
                if a == b or not readers:
                    continue
                need = model.number(0.0, 1.0, f"need{t},{a},{b}")
                for w in readers:
                    model.at_least(need, self.place[flow.maker, a] + self.place[w, b] - 1.0)
                for end in {w in ends for w in readers}:
                    leaving.setdefault((a, end), []).append(need)
                    arriving.setdefault((b, end), []).append(need)
                route = instance.route(a, b, flow.nbytes)
                if route is None:
                    model.equal(need, ZERO)
                for hop in route or ():
                    model.at_least(self._hop(t, hop), need)
        for w in flow.readers:
            end = w in ends
            for a in instance.devices[flow.maker]:
                if (a, end) in leaving and (flow.maker, a) in self.place:
                    gone = self.place[flow.maker, a] - self.place.get((w, a), ZERO)
                    model.at_least(total(leaving[a, end]), gone)
            for b in instance.devices[w]:
                if (b, end) in arriving and (w, b) in self.place:
                    come = self.place[w, b] - self.place.get((flow.maker, b), ZERO)
                    model.at_least(total(arriving[b, end]), come)

    def _hop(self, t: int, hop: Hop) -> Linear:
        """y of a tensor and a hop, with what it loads."""
        found = self._hops.get((t, hop))
        if found is None:
            instance, nbytes = self.instance, self.instance.tensors[t].nbytes
            found = self._hops[t, hop] = self.model.number(0.0, 1.0, f"y{t},{hop}")
            seconds = instance.hop_seconds(hop, nbytes) / self.unit
            for resource in instance.resources(hop):
                # Longer than everything is out, however much longer: no huge numbers.
                self.busy.setdefault(resource, []).append(found * min(seconds, 2 * _WHOLE))
            self.held.setdefault(hop[1], []).append(found * nbytes)
        return found

    def _add_loads(self) -> None:
        """T is no less than the load of any device or exclusive link."""
        for (v, d), here in self.place.items():
            seconds = self.instance.seconds[v][d]
            if seconds <= self.most:  # else P is 0
                self.busy.setdefault(d, []).append(here * (seconds / self.unit))
        for _, parts in sorted(self.busy.items()):
            self.model.at_most(total(parts), self.top)

    def _add_memory(self) -> None:
        """Every device holds weights, and all that is made on or copied to it."""
        instance = self.instance
        made = [sum(instance.tensors[t].nbytes for t in row) for row in instance.outputs]
        for (v, d), here in self.place.items():
            own = instance.weights[v] + instance.unread[v] + made[v]
            self.held.setdefault(d, []).append(here * own)
        for d, parts in sorted(self.held.items()):
            limit = instance.capacity[d]
            if limit is not None and instance.memory_binds[d]:
                self.model.at_most(total(parts) * (_WHOLE / max(1, limit)), limit and _WHOLE)
