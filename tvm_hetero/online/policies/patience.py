"""How long disturbances lasted, and the one that is: what it is worth to answer it depends on it.

A disturbance lasts from the alarm that tells of it to the one that tells of another, or of none,
by the requests that were watched meanwhile.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, replace

from tvm_hetero.online.detection import Alarm
from tvm_hetero.online.policy import Setting
from tvm_hetero.online.slowdown import Factors

# Lengths of so many disturbances are kept.
_KEPT = 16
# A stage's ratio that differs by less from the last one is of the same disturbance.
_SAME = 0.1
# Lengths are known but for this: an alarm takes some windows, and so does its end.
_ABOUT = 0.8


@dataclass(frozen=True)
class Patience:
    """`lengths`: requests that the last disturbances took; `lasting`: of the one that is, 0: none.

    `alarm`: what is said of it while it is not answered. `factors`: of each place, in the last ones
    that were answered, or looked at.
    """

    lengths: tuple[int, ...] = ()
    factors: tuple[tuple[Factors, ...], ...] = ()
    lasting: int = 0
    alarm: Alarm | None = None
    is_new: bool = False

    def go_on(self, requests: int) -> Patience:
        """So many more requests, and nothing has changed."""
        return replace(self, lasting=self.lasting + requests) if self.lasting else self

    def end(self) -> Patience:
        """Whatever disturbed has ended."""
        if not self.lasting:
            return self
        return Patience((*self.lengths[1 - _KEPT :], self.lasting), self.factors)

    def see(self, factors: tuple[Factors, ...]) -> Patience:
        """How slow each place is in what has just begun."""
        return replace(self, factors=(*self.factors[1 - _KEPT :], factors))

    def hear(self, alarm: Alarm, setting: Setting, requests: int) -> Patience:
        """An alarm: of what is known already, or of another disturbance."""
        if self.alarm is not None and _is_same(alarm, self.alarm):
            return replace(self.go_on(requests), is_new=False)
        begun = setting.patience * requests
        return replace(self.end(), lasting=begun, alarm=alarm, is_new=True)

    def answer(self) -> Patience:
        """The next alarm tells that it has ended, or that there is another one."""
        return replace(self, alarm=None)

    def remaining(self) -> float:
        """Requests for which it is expected to last still; infinite where nobody knows.

        As most of the last ones that lasted for about as long as this one by now, or longer; what
        has lasted for twice as long as any of them is expected to last for as long again.
        """
        if not self.lengths:
            return math.inf
        alike = [length for length in self.lengths if length > _ABOUT * self.lasting]
        if alike:
            return statistics.median(max(0, length - self.lasting) for length in alike)
        return self.lasting if self.lasting > 2 * max(self.lengths) else 0.0


START = Patience()


def _is_same(alarm: Alarm, other: Alarm) -> bool:
    alike = abs(alarm.ratio / other.ratio - 1) <= _SAME
    return (alarm.stage, alarm.direction) == (other.stage, other.direction) and alike


def cost_of_answer(setting: Setting, stages: int) -> int:
    """Requests that an answer takes: watched until an alarm, in flight, and a trial."""
    return setting.patience * setting.window + stages + 1 + setting.trial
