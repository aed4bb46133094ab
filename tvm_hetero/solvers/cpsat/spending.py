"""Energy and cost of one CP-SAT model (P_d watts while busy, I_d while idle; price_d an hour).

    used_d          1 if an execution or an end of a hop is on d
    z_d >= T - H (1 - used_d)                      T if d is used, else 0
    energy = sum_d (P_d - I_d) busy_d + I_d z_d    cost = sum_d price_d / 3600 z_d

Of teams what lasts is counted by core (rule 7): a core i spends the dearest share of the devices in
use on it, while none of them is busy. With g_d = I_d (or price_d) over the number of cores of d

    f_i >= g_d (z_d - busy_i)                      for every device d on i, and f_i >= 0
    energy = ... + sum_d P_d busy_d + sum_i f_i    cost = ... + sum_i f_i with f_i >= g_d z_d

Cores with the same devices have one f, as many times. Coefficients are in thousandths; they must be
whole for a bound to be claimed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from tvm_hetero.problem.model import Problem

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

THOUSANDTHS = 1000


class TimedModel(Protocol):
    """A model in which devices are busy and last: of one batch, or of a steady state."""

    model: cp_model.CpModel
    horizon: int

    def busy(self, d: int) -> cp_model.LinearExpr | int:
        """Ticks for which a device is busy."""

    def worked(self, d: int) -> cp_model.LinearExpr | int:
        """The same of a team."""

    def while_used(self, d: int) -> cp_model.IntVar | None:
        """How long a device is charged for; None if it never can be in use."""


class Spending:
    """The terms of energy or cost; `whole` says whether all coefficients are whole."""

    def __init__(self, model: TimedModel, problem: Problem) -> None:
        self.model, self.problem = model, problem
        self.energy = problem.objective.kind == "energy"
        self.whole = True
        lasting = (model.while_used(d) for d in range(len(problem.platform.devices)))
        self.lasting = dict(enumerate(lasting))

    def terms(self) -> list[cp_model.LinearExpr | int]:
        """All that is to be summed up."""
        return [*self._of_devices(), *self._of_cores()]

    def _of_devices(self) -> Iterator[cp_model.LinearExpr | int]:
        """What devices spend by themselves: of teams only while they are busy."""
        shared = self.problem.platform.team_cores
        for d, device in enumerate(self.problem.platform.devices):
            lasting, watts = self.lasting[d], device.watts or 0.0
            if lasting is None:
                continue
            if device.name in shared:
                if self.energy:
                    yield self._times(watts) * self.model.worked(d)
            elif self.energy:
                yield self._times(watts - device.idle_watts) * self.model.busy(d)
                yield self._times(device.idle_watts) * lasting
            else:
                yield self._times(device.price or 0.0) * lasting

    def _of_cores(self) -> Iterator[cp_model.LinearExpr | int]:
        """What cores of teams spend while they idle, or cost."""
        platform = self.problem.platform
        for devices, count in Counter(platform.cores.values()).items():
            mine = {d: z for d in devices if (z := self.lasting[d]) is not None}
            if not mine or platform.names[devices[0]] not in platform.team_cores:
                continue
            busy = sum(map(self.model.worked, mine)) if self.energy else 0
            shares = {d: self._times(self._share(d)) for d in mine}
            most = max(shares.values()) * self.model.horizon
            spent = self.model.model.new_int_var(0, most, f"core of {devices}")
            for d, lasting in mine.items():
                self.model.model.add(spent >= shares[d] * (lasting - busy))
            yield count * spent

    def _share(self, d: int) -> float:
        """What a device's figure that lasts is for each of its cores."""
        device = self.problem.platform.devices[d]
        return (device.idle_watts if self.energy else device.price or 0.0) / len(device.cores)

    def _times(self, factor: float) -> int:
        coefficient = round(factor * THOUSANDTHS)
        self.whole = self.whole and abs(coefficient - factor * THOUSANDTHS) < 1e-9
        return coefficient
