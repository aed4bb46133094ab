"""How long a disturbance has to last before it is answered: what the last ones lasted tells.

An answer takes c requests: watched until an alarm, in flight, tried. As many go by what fitted when
the disturbance has ended. So of one that lasts for d requests, answered when it has lasted for h,
d - h - c go better and c worse, and what is gained is about

    worth(d, h) = d - h - 2 c   if d > h, else 0                                  -> `_worth`

`hold` is the h for which the sum over the last disturbances is the largest: 0, or as long as one of
them. Where it is worth nothing, none is answered but what lasts for twice as long as any of them.
It is the problem of renting skis or buying them, with what was seen as the guess of the winter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvm_hetero.online.detection import Alarm
from tvm_hetero.online.policy import Setting

# Lengths of so many disturbances are kept.
_KEPT = 16
# A stage's ratio that differs by less from the last one is of the same disturbance.
_SAME = 0.1


@dataclass(frozen=True)
class Patience:
    """`lengths`: requests that the last disturbances took; `lasting`: of the one that is, 0: none.

    `alarm`: what is said of it while it is not answered.
    """

    lengths: tuple[int, ...] = ()
    lasting: int = 0
    alarm: Alarm | None = None

    def go_on(self, requests: int) -> Patience:
        """So many more requests, and nothing has changed."""
        return replace(self, lasting=self.lasting + requests) if self.lasting else self

    def end(self) -> Patience:
        """Whatever disturbed has ended."""
        if not self.lasting:
            return self
        return Patience((*self.lengths[1 - _KEPT :], self.lasting))

    def hear(self, alarm: Alarm, setting: Setting, requests: int) -> Patience:
        """An alarm: of what is known already, or of another disturbance."""
        if self.alarm is not None and _is_same(alarm, self.alarm):
            return self.go_on(requests)
        begun = setting.patience * requests
        return replace(self.end(), lasting=begun, alarm=alarm)

    def answer(self) -> Patience:
        """The next alarm tells that it has ended, or that there is another one."""
        return replace(self, alarm=None)

    def hold(self, cost: int) -> int:
        """Requests that a disturbance has to last, for an answer that takes so many."""
        if not self.lengths:
            return 0
        choices = (0, *sorted(set(self.lengths)))
        best = max(choices, key=lambda h: (_worth(self.lengths, h, cost), -h))
        return best if _worth(self.lengths, best, cost) > 0 else 2 * max(self.lengths)


START = Patience()


def _worth(lengths: Sequence[int], held: int, cost: int) -> int:
    """Requests that would have been gained by answering what outlasts `held`."""
    return sum(length - held - 2 * cost for length in lengths if length > held)


def _is_same(alarm: Alarm, other: Alarm) -> bool:
    alike = abs(alarm.ratio / other.ratio - 1) <= _SAME
    return (alarm.stage, alarm.direction) == (other.stage, other.direction) and alike


def cost_of_answer(setting: Setting, stages: int) -> int:
    """Requests that an answer takes: watched until an alarm, in flight, and a trial."""
    return setting.patience * setting.window + stages + 1 + setting.trial
