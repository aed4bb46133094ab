"""The day as an integer program: variables and rules, built for CP-SAT.

    minimise    sum over t, j of  price y[t,j] + start a[t,j]
                + sum over t, i, j, h of  load v[t,i,j,h]
    subject to  sum over g of  z[t,j,g] = y[t,j]                       one mode      -> `_modes`
                x[t,i,j] <= sum over g that i may live in of  z[t,j,g]               -> `_modes`
                sum over i of  x[t,i,j] <= sum over g of  (1 if alone, else all) z[t,j,g]  `_modes`
                sum over i of  s[t,i,j,g] <= PARTS z[t,j,g]                          -> `_time`
                sum over g of  s[t,i,j,g] <= PARTS x[t,i,j]        a home            -> `_time`
                sum over j, g of  c[g,i] s[t,i,j,g] >= PARTS need[t][i]              -> `_serve`
                sum over j of  x[t,i,j] >= need[t][i] / (the largest c), rounded up  -> `_serve`
                sum over p of  l[t,i,j,p] = x[t,i,j]               one plan          -> `_plans`
                l[t,i,j,p] <= sum over g with p(g,i) = p of  z[t,j,g]                -> `_plans`
                sum over i, h of  u[t,i,j,h] <= room                                 -> `_memory`
                u[t,i,j,h] >= sum over p with h(p) = h of  size l[.,i,j,p], . = t, t-1  `_memory`
                a[t,j] >= y[t,j] - y[t-1,j]                                          -> `_moves`
                v[t,i,j,h] >= sum over p with h(p) = h of  l[t,i,j,p] - l[t-1,i,j,p] -> `_moves`

A model that runs by the same plan in all modes of a kind has x itself for l. Machines of one kind
are alike: the first is on in no fewer hours than the second, and so on.
Everything is an integer, so bounds are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tvm_hetero.errors import InfeasibleError
from tvm_hetero.planning.sharing.dominance import short_memories
from tvm_hetero.planning.sharing.problem import DayPlan, MachineHour, SharingPolicy, SharingProblem

if TYPE_CHECKING:
    from ortools.sat.python import cp_model


# The plan by which a model lives on a machine, by both.
_Living = dict[tuple[int, int], int]


def no_day(problem: SharingProblem, policy: SharingPolicy) -> InfeasibleError:
    """The error for a load that is too much in all modes; no proof where memories are short.

    There other batches than those that modes have, which carry most, might fit.
    """
    how = "" if policy.shared else " with one model each"
    is_short = any(short_memories(kind) for kind in problem.kinds)
    batches = ", by the batches that were rated" if is_short else ""
    return InfeasibleError(
        f"the machines that can be had{how} do not carry the day's load within every SLO and "
        f"their memories{batches}; raise 'available', or relax an SLO",
        proven=not is_short,
    )


class DayModel:
    """The model of the head of this file; a day of one hour has no moves."""

    def __init__(self, problem: SharingProblem, policy: SharingPolicy) -> None:
        from ortools.sat.python import cp_model

        self.problem, self.policy = problem, policy
        self.model = cp_model.CpModel()
        # What stands still is decided once; only the parts of time change with the hour.
        self.hours = range(len(problem.need))
        self.stands = self.hours if policy.moving else range(1)
        self.y: dict[tuple[int, int], cp_model.IntVar] = {}
        self.z: dict[tuple[int, int, int], cp_model.IntVar] = {}
        self.x: dict[tuple[int, int, int], cp_model.IntVar] = {}
        self.s: dict[tuple[int, int, int, int], cp_model.IntVar] = {}
        self.l: dict[tuple[int, int, int, int], cp_model.IntVar] = {}
        for j, m in enumerate(problem.machines):
            for t in self.stands:
                self._modes(t, j, m)
                for i in range(len(problem.models)):
                    self._plans(t, i, j, m)
            for t in self.hours:
                self._time(t, j, m)
        self._serve()
        self._memory()
        self._moves()
        self._alike()

    def _at(self, t: int) -> int:
        return t if self.policy.moving else 0

    def _modes(self, t: int, j: int, m: int) -> None:
        """One mode of a machine that is on, and who lives there."""
        modes, models = self.problem.kinds[m].modes, range(len(self.problem.models))
        self.y[t, j] = self.model.new_bool_var("")
        for g in range(len(modes)):
            self.z[t, j, g] = self.model.new_bool_var("")
        self.model.add(sum(self.z[t, j, g] for g in range(len(modes))) == self.y[t, j])
        for i in models:
            self.x[t, i, j] = self.model.new_bool_var("")
            open_to = [self.z[t, j, g] for g, mode in enumerate(modes) if mode.carries[i]]
            self.model.add(self.x[t, i, j] <= sum(open_to))
        living = sum(self.x[t, i, j] for i in models)
        # A machine that is on has somebody; alone it has one.
        self.model.add(living >= self.y[t, j])
        many = len(models) if self.policy.shared else 1
        most = [1 if mode.alone else many for mode in modes]
        self.model.add(living <= sum(m * self.z[t, j, g] for g, m in enumerate(most)))

    def _plans(self, t: int, i: int, j: int, m: int) -> None:
        """The plan by which a model lives on a machine: that of the mode."""
        by_plan: dict[int, list[cp_model.IntVar]] = {}
        for g, mode in enumerate(self.problem.kinds[m].modes):
            if mode.carries[i]:
                by_plan.setdefault(mode.plan(i), []).append(self.z[t, j, g])
        if len(by_plan) == 1:
            self.l[t, i, j, next(iter(by_plan))] = self.x[t, i, j]
            return
        for p, modes in by_plan.items():
            self.l[t, i, j, p] = self.model.new_bool_var("")
            self.model.add(self.l[t, i, j, p] <= sum(modes))
        self.model.add(sum(self.l[t, i, j, p] for p in by_plan) == self.x[t, i, j])

    def _by_copy(self, i: int, j: int) -> dict[int, list[int]]:
        """The plans of a model on a machine that share a copy of its weights."""
        kind = self.problem.kinds[self.problem.machines[j]]
        found: dict[int, list[int]] = {}
        for p in sorted({mode.plan(i) for mode in kind.modes if mode.carries[i]}):
            found.setdefault(kind.copy(i, p), []).append(p)
        return found

    def _time(self, t: int, j: int, m: int) -> None:
        """The parts of a machine's time."""
        at, parts = self._at(t), self.problem.parts
        for i in range(len(self.problem.models)):
            own = []
            for g, mode in enumerate(self.problem.kinds[m].modes):
                if mode.carries[i]:
                    self.s[t, i, j, g] = self.model.new_int_var(0, parts, "")
                    own.append(self.s[t, i, j, g])
            self.model.add(sum(own) <= parts * self.x[at, i, j])
        for g in range(len(self.problem.kinds[m].modes)):
            given = [v for i in range(len(self.problem.models))
                     if (v := self.s.get((t, i, j, g))) is not None]  # fmt: skip
            self.model.add(sum(given) <= parts * self.z[at, j, g])

    def _serve(self) -> None:
        machines, parts = self.problem.machines, self.problem.parts
        answered: dict[tuple[int, int], list[cp_model.LinearExprT]] = {}
        for (t, i, j, g), given in self.s.items():
            rate = self.problem.kinds[machines[j]].modes[g].carries[i]
            answered.setdefault((t, i), []).append(rate * given)
        for t in self.hours:
            for i, need in enumerate(self.problem.need[t]):
                self.model.add(sum(answered.get((t, i), [])) >= parts * need)
                self._enough_homes(t, i, need)

    def _enough_homes(self, t: int, i: int, need: int) -> None:
        """A model lives on so many machines, at least: implied, but not by the linear program."""
        most = max(mode.carries[i] for kind in self.problem.kinds for mode in kind.modes)
        if need and most:
            homes = sum(self.x[self._at(t), i, j] for j in range(len(self.problem.machines)))
            self.model.add(homes >= -(-need // most))

    def _memory(self) -> None:
        self.u: dict[tuple[int, int, int, int, int], cp_model.IntVar] = {}
        for j, m in enumerate(self.problem.machines):
            kind = self.problem.kinds[m]
            for d, room in enumerate(kind.rooms):
                if room is None:
                    continue
                sizes = {
                    (i, h): {p: kind.sizes[i][p][d] for p in plans}
                    for i in range(len(kind.loads)) for h, plans in self._by_copy(i, j).items()
                }  # fmt: skip
                # Where all copies have room at once there is nothing to be said.
                if sum(max(own.values()) for own in sizes.values()) <= room:
                    continue
                for t in self.stands:
                    for (i, h), own in sizes.items():
                        self._room_of_copy(t, i, j, h, d, own)
                    needed = sum(self.u[t, i, j, h, d] for i, h in sizes)
                    self.model.add(needed <= room)

    def _room_of_copy(self, t: int, i: int, j: int, h: int, d: int, sizes: dict[int, int]) -> None:
        """u: what a copy needs on a device of a machine in this hour or the one before."""
        self.u[t, i, j, h, d] = u = self.model.new_int_var(0, max(sizes.values()), "")
        for hour in sorted({t, self._before(t)}):
            self.model.add(u >= sum(size * self.l[hour, i, j, p] for p, size in sizes.items()))

    def _before(self, t: int) -> int:
        return (t - 1) % len(self.stands)

    def _moves(self) -> None:
        """Starts and loads; nothing moves in a day of one hour."""
        self.starts: dict[tuple[int, int], cp_model.IntVar] = {}
        self.loads: dict[tuple[int, int, int, int], cp_model.IntVar] = {}
        if len(self.stands) == 1:
            return
        for (t, j), y in self.y.items():
            self.starts[t, j] = start = self.model.new_bool_var("")
            self.model.add(start >= y - self.y[self._before(t), j])
        for t, i, j in self.x:
            for h, plans in self._by_copy(i, j).items():
                self.loads[t, i, j, h] = load = self.model.new_bool_var("")
                now, was = (sum(self.l[hour, i, j, p] for p in plans)
                            for hour in (t, self._before(t)))  # fmt: skip
                self.model.add(load >= now - was)

    def _alike(self) -> None:
        machines = self.problem.machines
        for j in range(1, len(machines)):
            if machines[j] == machines[j - 1]:
                mine = sum(self.y[t, j] for t in self.stands)
                self.model.add(mine <= sum(self.y[t, j - 1] for t in self.stands))

    def machines_cost(self, t: int) -> cp_model.LinearExprT:
        """What the machines of an hour cost, without moves."""
        kinds, at = self.problem.kinds, self._at(t)
        return sum(kinds[m].price * self.y[at, j] for j, m in enumerate(self.problem.machines))

    def cost(self) -> cp_model.LinearExprT:
        """What the day costs."""
        kinds, machines = self.problem.kinds, self.problem.machines
        return (
            sum(self.machines_cost(t) for t in self.hours)
            + sum(kinds[machines[j]].start * a for (_, j), a in self.starts.items())
            + sum(kinds[machines[j]].loads[i] * v for (_, i, j, _), v in self.loads.items())
        )

    def limit_hours(self, floors: list[int]) -> None:
        """No hour's machines cost less than they do alone."""
        for t, floor in enumerate(floors):
            self.model.add(self.machines_cost(t) >= floor)

    def hint(self, plan: DayPlan) -> None:
        """Begin with a plan: all variables say what it does."""
        self.model.clear_hints()
        modes = [{each.machine: each.mode for each in hour} for hour in plan]
        parts = [{(i, each.machine): n for each in hour for i, n in each.parts.items()}
                 for hour in plan]  # fmt: skip
        living = [self._living(hour) for hour in plan]
        add, before = self.model.add_hint, self._before
        for (t, j), y in self.y.items():
            add(y, j in modes[t])
        for (t, j, g), z in self.z.items():
            add(z, modes[t].get(j) == g)
        for (t, i, j), x in self.x.items():
            add(x, (i, j) in parts[t])
        for (t, i, j, p), own in self.l.items():
            if own is not self.x[t, i, j]:
                add(own, living[t].get((i, j)) == p)
        for (t, i, j, g), s in self.s.items():
            add(s, parts[t].get((i, j), 0) if modes[t].get(j) == g else 0)
        for (t, i, j, h, d), u in self.u.items():
            needed = (self._size(living[hour], i, j, h, d) for hour in (t, before(t)))
            add(u, max(needed))
        for (t, j), start in self.starts.items():
            add(start, j in modes[t] and j not in modes[before(t)])
        for (t, i, j, h), load in self.loads.items():
            now, was = (self._copy(living[hour], i, j) == h for hour in (t, before(t)))
            add(load, now and not was)

    def _living(self, hour: tuple[MachineHour, ...]) -> _Living:
        kinds, machines = self.problem.kinds, self.problem.machines
        return {
            (i, each.machine): kinds[machines[each.machine]].modes[each.mode].plan(i)
            for each in hour for i in each.parts
        }  # fmt: skip

    def _copy(self, living: _Living, i: int, j: int) -> int | None:
        p = living.get((i, j))
        return None if p is None else self.problem.kinds[self.problem.machines[j]].copy(i, p)

    def _size(self, living: _Living, i: int, j: int, h: int, d: int) -> int:
        """What a copy needs on a device in an hour; 0 if it is not there."""
        kind = self.problem.kinds[self.problem.machines[j]]
        return kind.sizes[i][living[i, j]][d] if self._copy(living, i, j) == h else 0

    def plan(self, solver: cp_model.CpSolver) -> DayPlan:
        """What the variables say."""
        return tuple(self._hour(solver, t) for t in self.hours)

    def _hour(self, solver: cp_model.CpSolver, t: int) -> tuple[MachineHour, ...]:
        at, found = self._at(t), []
        for j in range(len(self.problem.machines)):
            modes = self.problem.kinds[self.problem.machines[j]].modes
            chosen = [g for g in range(len(modes)) if solver.value(self.z[at, j, g])]
            if chosen:
                g = chosen[0]
                parts = {
                    i: int(solver.value(self.s[t, i, j, g])) if (t, i, j, g) in self.s else 0
                    for i in range(len(self.problem.models))
                    if solver.value(self.x[at, i, j])
                }
                found.append(MachineHour(j, g, parts))
        return tuple(found)
