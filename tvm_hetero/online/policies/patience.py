"""How long disturbances lasted, and the one that is: what it is worth to answer it depends on it.

A disturbance lasts from the alarm that tells of it to those that tell of another, or to windows
that tell of none, by the requests that were watched meanwhile. One window may be an accident: as
many in a row as the detector asks for an alarm tell that it is another, or none.
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
# A stage's ratio that is beyond what was heard by less is of the same disturbance.
_SAME = 0.1
# Lengths are known but for this: an alarm takes some windows, and so does its end.
_ABOUT = 0.8


@dataclass(frozen=True)
class DisturbanceHistory:
    """What disturbed so far, and what does now.

    Attributes
    ----------
    lengths : requests that the last disturbances took; lasting : of the one that is, 0: none.
    factors : of each place, in the last ones that were answered, or looked at.
    alarm : what was first said of it while it is not answered; is_new : whether just now.
    span : least and largest ratio that were heard of it.
    unsure : the last windows, where they may be of another disturbance, or (None) of none.
    """

    lengths: tuple[int, ...] = ()
    factors: tuple[tuple[Factors, ...], ...] = ()
    lasting: int = 0
    alarm: Alarm | None = None
    is_new: bool = False
    span: tuple[float, float] = (1.0, 1.0)
    unsure: tuple[Alarm | None, ...] = ()

    def go_on(self, requests: int) -> DisturbanceHistory:
        """So many more requests of it; so were the windows that might have been of another one."""
        if not self.lasting:
            return self
        lasting = self.lasting + requests * (1 + len(self.unsure))
        return replace(self, lasting=lasting, span=_widen(self.span, self.unsure), unsure=())

    def end(self) -> DisturbanceHistory:
        """Whatever disturbed has ended."""
        if not self.lasting:
            return self
        return DisturbanceHistory((*self.lengths[1 - _KEPT :], self.lasting), self.factors)

    def see(self, factors: tuple[Factors, ...]) -> DisturbanceHistory:
        """How slow each place is in what has just begun."""
        return replace(self, factors=(*self.factors[1 - _KEPT :], factors))

    def hear(self, alarm: Alarm, setting: Setting, requests: int) -> DisturbanceHistory:
        """An alarm: of what is known already, or of another disturbance.

        Ratios jitter: several windows in a row have to be beyond all that were heard of this one.
        """
        known, (low, high) = self.alarm, self.span
        if known is None or (alarm.stage, alarm.direction) != (known.stage, known.direction):
            return self._begin((alarm,), setting, requests)
        if low * (1 - _SAME) <= alarm.ratio <= high * (1 + _SAME):
            return replace(self.go_on(requests), is_new=False)
        unsure = (*self.unsure, alarm)
        if len(unsure) >= setting.patience:
            return self._begin(unsure, setting, requests)
        return replace(self, unsure=unsure, is_new=False)

    def calm_down(self, setting: Setting) -> DisturbanceHistory:
        """A window without a deviation: with several in a row it has ended."""
        unsure = (*self.unsure, None)
        return self.end() if len(unsure) >= setting.patience else replace(self, unsure=unsure)

    def answer(self) -> DisturbanceHistory:
        """The next alarm tells that it has ended, or that there is another one."""
        return replace(self, alarm=None, unsure=())

    def forget(self) -> DisturbanceHistory:
        """What disturbs is to be heard anew."""
        return replace(self.answer(), lasting=0)

    def _begin(
        self, heard: tuple[Alarm | None, ...], setting: Setting, requests: int
    ) -> DisturbanceHistory:
        """Another disturbance, which took some windows to be told."""
        alarm = heard[-1]
        assert alarm is not None
        span = _widen((alarm.ratio, alarm.ratio), heard)
        begun = setting.patience * requests
        return replace(self.end(), lasting=begun, alarm=alarm, is_new=True, span=span, unsure=())

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


START = DisturbanceHistory()


def _widen(span: tuple[float, float], heard: tuple[Alarm | None, ...]) -> tuple[float, float]:
    """So that it holds what was heard, too."""
    ratios = (*span, *(alarm.ratio for alarm in heard if alarm is not None))
    return min(ratios), max(ratios)


def cost_of_answer(setting: Setting, stages: int) -> int:
    """Requests that an answer takes: watched until an alarm, in flight, and a trial."""
    return setting.patience * setting.window + stages + 1 + setting.trial
