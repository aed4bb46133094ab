"""The MILP's answer to where: modes, elements, colors, who reads what from whom, and hops.

Notation: e, f candidates (`candidates`), m a mode (device, size), l an element, t a tensor.

    z[e, m]       e takes place in mode m (DiviML: b, with x = the sum over one device's modes)
    has[e, l]     e holds element l (DiviML: x[i, j, l]); constant for one element
    reads[e, f]   f reads what e makes: they have an element in common
    moves[e, f, m, k]   e runs in mode m, f on device k, and f reads what e makes
    hop[e, t, a -> b, m]  e, in mode m, has its tensor t copied from a to b

==================================================================  =====================
constraints                                                         added by
==================================================================  =====================
sum_m z = 1 (or <= 1); sum_l has = sum_m size(m) z;                 `_add_candidate`
sum_e has[e, l] = 1 for each task and element; consecutive          `_add_elements`
elements for the first task
tasks of one color on one device                                    `_add_colors`
reads >= has[e, l] + has[f, l] - 1                                  `_add_reads`
sum_{m,k} moves = reads; sum_k moves <= z[e, m];                    `_add_moves`
sum_m moves <= on[f, k]; no moves where no path leads
hop >= sum of the moves whose route takes it, for each reader       `_add_hops`
weights once a task and device                                      `weights`
==================================================================  =====================

`moves` is a transport problem between the devices of maker and reader, which is tighter than a
big-M term for each pair of devices.
The hops are continuous: nothing is gained by a hop that is not needed, except where a device
draws more while idle than while busy; `tight` then bounds reads and hops from above, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tvm_hetero.solvers.milp.candidates import Candidates, Mode
from tvm_hetero.solvers.milp.model import ONE, ZERO, Linear, MilpModel, total
from tvm_hetero.solvers.milp.warm_start import Start
from tvm_hetero.views.instance import Hop, Instance

Made = tuple[int, int]
Moves = dict[tuple[Mode, int], Linear]


class Placement:
    """The variables above and their rows.

    Attributes
    ----------
    tight : whether reads and hops are bounded from above (see the head of this file).
    """

    def __init__(
        self,
        model: MilpModel,
        instance: Instance,
        candidates: Candidates,
        start: Start | None,
        *,
        all_hops: bool,
    ) -> None:
        self.model = model
        self.instance = instance
        self.candidates = candidates
        self.start = start
        devices = instance.problem.platform.devices
        self.tight = instance.problem.objective.kind == "energy" and any(
            (device.watts or 0.0) < device.idle_watts for device in devices
        )
        self.z: dict[tuple[int, Mode], Linear] = {}
        self.on: dict[tuple[int, int], Linear] = {}
        self.has: dict[tuple[int, int], Linear] = {}
        self.reads: dict[tuple[int, int], Linear] = {}
        self.moves: dict[tuple[int, int], Moves] = {}
        self.hops: dict[tuple[int, int, Hop], dict[Mode, Linear]] = {}
        for e in range(len(candidates)):
            self._add_candidate(e)
        if candidates.kind != "whole":
            self._add_elements()
        self._add_colors()
        for v in range(len(instance)):
            for w in sorted({w for t in instance.outputs[v] for w in instance.tensors[t].readers}):
                for e in candidates.of[v]:
                    for f in candidates.of[w]:
                        self._add_reads(e, f)
                        self._add_moves(e, f)
        for t in range(len(instance.tensors)):
            for e in candidates.of[instance.tensors[t].maker]:
                self._add_hops(e, t, all_hops)

    # --- what others ask ---------------------------------------------------------------------

    def nbytes(self, t: int, size: int) -> int:
        """Bytes of a tensor as an execution of `size` elements makes it."""
        return self.instance.tensors[t].nbytes // self.instance.problem.batch * size

    def route(self, t: int, mode: Mode, k: int) -> tuple[Hop, ...] | None:
        """The hops from a maker in `mode` to device `k`."""
        return self.instance.route(mode.device, k, self.nbytes(t, mode.size))

    def hop_seconds(self, t: int, hop: Hop, size: int) -> float:
        """Time of a hop, s."""
        return self.instance.hop_seconds(hop, self.nbytes(t, size))

    def seconds(self, e: int, mode: Mode) -> float:
        """Time of an execution, s."""
        problem, instance = self.instance.problem, self.instance
        task = instance.tasks[self.candidates.rows[e].task]
        return problem.seconds(task, instance.names[mode.device], mode.size)

    def present(self, e: int) -> Linear:
        """1 if the candidate takes place."""
        return total(self.z[e, mode] for mode in self.candidates.rows[e].modes)

    def readers(self, t: int) -> list[int]:
        """All candidates of the tasks that read a tensor."""
        return [f for w in self.instance.tensors[t].readers for f in self.candidates.of[w]]

    def weights(self, v: int, d: int) -> Linear:
        """1 if task `v` has its weights on device `d`: at least one execution is there."""
        users = [self.on[e, d] for e in self.candidates.of[v] if (e, d) in self.on]
        if len(users) <= 1:
            return users[0] if users else ZERO
        known = self._someone(self.candidates.of[v], d)
        held = self.model.number(0.0, 1.0, f"weights[{v},{d}]", known)
        for user in users:
            self.model.at_least(held, user)
        return held

    # --- emission ----------------------------------------------------------------------------

    def _add_candidate(self, e: int) -> None:
        """One mode a candidate that takes place, and as many elements as the mode says."""
        model, row, start = self.model, self.candidates.rows[e], self.start
        mine = start.chosen.get(e) if start else None
        for mode in row.modes:
            if row.certain and len(row.modes) == 1:
                self.z[e, mode] = ONE
                continue
            hint = None if start is None else mine is not None and mine.mode == mode
            self.z[e, mode] = model.binary(f"z[{e},{mode.device},{mode.size}]", hint)
        for d in row.devices:
            self.on[e, d] = total(self.z[e, mode] for mode in row.modes if mode.device == d)
        present = self.present(e)
        if row.certain:
            model.equal(present, 1.0)
            self.has.update({(e, n): ONE for n in row.elements})
            return
        model.at_most(present, 1.0)
        for n in row.elements:
            hint = None if start is None else mine is not None and n in mine.elements
            self.has[e, n] = present if n == row.first else model.binary(f"has[{e},{n}]", hint)
            model.at_most(self.has[e, n], present)
        size = total(mode.size * self.z[e, mode] for mode in row.modes)
        model.equal(total(self.has[e, n] for n in row.elements), size)

    def _add_elements(self) -> None:
        """Every element once a task; the first task takes them in order (they are alike)."""
        model, candidates, batch = self.model, self.candidates, self.instance.problem.batch
        for mine in candidates.of:
            for n in range(batch):
                model.equal(total(self.has[e, n] for e in mine if (e, n) in self.has), 1.0)
        first = candidates.of[self.instance.order[0]]
        for i in range(1, len(first)):
            # Elements of the i-th candidate and later ones: no element after them is earlier's.
            rows = [
                total(self.has[e, n] for e in first[i:] if (e, n) in self.has) for n in range(batch)
            ]
            for earlier, later in pairwise(rows):
                model.at_most(earlier, later)

    def _add_colors(self) -> None:
        for g, group in enumerate(self.instance.groups):
            members = [e for v in group for e in self.candidates.of[v]]
            colored = self.instance.problem.graph.task(self.instance.tasks[group[0]]).color
            if colored is None or len(members) <= 1:
                continue
            home = {}
            for d in self.instance.devices[group[0]]:
                home[d] = self.model.binary(f"home[{g},{d}]", self._someone(members, d))
                for e in members:
                    self.model.at_most(self.on.get((e, d), ZERO), home[d])
            self.model.equal(total(home.values()), 1.0)

    def _add_reads(self, e: int, f: int) -> None:
        rows, model = self.candidates.rows, self.model
        if rows[e].certain and rows[f].certain:
            self.reads[e, f] = ONE
            return
        both = [n for n in rows[e].elements if (f, n) in self.has]
        common = self._common(e, f)
        hint = None if common is None else bool(common)
        reads = model.number(0.0, 1.0, f"reads[{e},{f}]", hint)
        self.reads[e, f] = reads
        for n in both:
            model.at_least(reads, self.has[e, n] + self.has[f, n] - 1.0)
        if self.tight:
            shared = []
            for n in both:
                known = None if common is None else n in common
                shared.append(model.number(0.0, 1.0, f"shared[{e},{f},{n}]", known))
                model.at_most(shared[-1], self.has[e, n])
                model.at_most(shared[-1], self.has[f, n])
            model.at_most(reads, total(shared))

    def _add_moves(self, e: int, f: int) -> None:
        """From which mode of the maker to which device of the reader."""
        model, rows, instance = self.model, self.candidates.rows, self.instance
        v, w = rows[e].task, rows[f].task
        shared = [t for t in instance.outputs[v] if w in instance.tensors[t].readers]
        moves: Moves = {}
        for mode in rows[e].modes:
            for k in rows[f].devices:
                if any(self.route(t, mode, k) is None for t in shared):
                    continue
                name = f"moves[{e},{f},{mode.device},{mode.size},{k}]"
                moves[mode, k] = model.number(0.0, 1.0, name, self._moved(e, f, mode, k))
        certain = rows[e].certain and rows[f].certain
        bind = model.equal if certain else model.at_most
        for mode in rows[e].modes:
            bind(total(x for (m, _), x in moves.items() if m == mode), self.z[e, mode])
        for k in rows[f].devices:
            bind(total(x for (_, there), x in moves.items() if there == k), self.on[f, k])
        if not certain:
            model.equal(total(moves.values()), self.reads[e, f])
        self.moves[e, f] = moves

    def _moved(self, e: int, f: int, mode: Mode, k: int) -> bool | None:
        """Whether the start moves this."""
        if self.start is None:
            return None
        maker, reader = self.start.chosen.get(e), self.start.chosen.get(f)
        if maker is None or reader is None or not self._common(e, f):
            return False
        return maker.mode == mode and reader.mode.device == k

    def _common(self, e: int, f: int) -> set[int] | None:
        """The elements that both hold in the start; None without a start."""
        if self.start is None:
            return None
        mine = [self.start.chosen.get(c) for c in (e, f)]
        first, second = (set(c.elements) if c else set() for c in mine)
        return first & second

    def _someone(self, candidates: Sequence[int], d: int) -> bool | None:
        """Whether the start has one of them on device `d`; None without a start."""
        if self.start is None:
            return None
        there = (self.start.chosen[e].mode.device for e in candidates if e in self.start.chosen)
        return d in there

    def _add_hops(self, e: int, t: int, all_hops: bool) -> None:
        """What has to be copied where; only hops that matter get variables.

        They do if they occupy something, or if `all_hops` says so; with one such hop on a route,
        all hops of that route do.
        """
        found: dict[tuple[Hop, Mode], dict[int, list[Linear]]] = {}
        for f in self.readers(t):
            for (mode, k), move in self.moves[e, f].items():
                route = self.route(t, mode, k) or ()
                if all_hops or any(self.instance.resources(hop) for hop in route):
                    for hop in route:
                        found.setdefault((hop, mode), {}).setdefault(f, []).append(move)
        for (hop, mode), by_reader in found.items():
            needed = [total(moves) for moves in by_reader.values()]
            taken = needed[0]
            if len(needed) > 1:
                name = f"hop[{e},{t},{hop[0]},{hop[1]},{mode.device},{mode.size}]"
                taken = self.model.number(0.0, 1.0, name, self._made(e, t, hop, mode))
                for need in needed:
                    self.model.at_least(taken, need)
                self.model.at_most(taken, self.z[e, mode])
                if self.tight:
                    self.model.at_most(taken, total(needed))
            self.hops.setdefault((e, t, hop), {})[mode] = taken

    def _made(self, e: int, t: int, hop: Hop, mode: Mode) -> bool | None:
        if self.start is None:
            return None
        mine = self.start.chosen.get(e)
        return mine is not None and mine.mode == mode and (e, t, hop) in self.start.hops
