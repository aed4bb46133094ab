"""What to answer a disturbance with, if anything: what is gained while it lasts, and lost after it.

With R the requests for which it is expected to last still (`DisturbanceHistory.remaining`), c those
that an answer takes to come, and to go, and T(a) the bottleneck of an arrangement a:

    worth(a) = (R - c) (T(now) - T(a), as disturbed)  -  c (T(a) - T(home), when it has ended)

What comes when it has ended is what was there before: quiet, and the last disturbances, one as
likely as the other. So of what lasts long the optimum is worth most, and of what does not a step
or none: a step from home gains less, and loses hardly anything.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from itertools import pairwise

from tvm_hetero.online.configuration import Configuration, move
from tvm_hetero.online.optimum import Seconds, bottleneck
from tvm_hetero.online.own_plan import Arrangement
from tvm_hetero.online.policies.patience import cost_of_answer
from tvm_hetero.online.policies.resolve_state import ResolveState, find_best
from tvm_hetero.online.slowdown import disturbed_seconds

# What lasts for less is not worth it: a switch disturbs the stream, too, there and back.
_PAYS = 1.65


def best_answer(state: ResolveState) -> Arrangement | None:
    """What is worth most for the places as they are now; None if nothing is worth anything."""
    remaining = state.history.remaining()
    cost = cost_of_answer(state.setting, len(state.here))
    asks = state.setting.rest > 0  # whether what is too short is left alone
    if asks and remaining <= _PAYS * cost:
        return None
    optimum = find_best(state.setting, state.expected, state.here)
    if not asks or math.isinf(remaining):
        return optimum
    expected, after = state.expected, list(_seconds_after(state))
    now = bottleneck(expected, state.here)
    at_home = [bottleneck(seconds, state.home) for seconds in after]

    def worth(answer: Arrangement) -> float:
        gain = now - bottleneck(expected, answer)
        if gain <= 0:
            return 0.0
        told = [bottleneck(seconds, answer) for seconds in after]
        loss = statistics.fmean(a - b for a, b in zip(told, at_home, strict=True))
        return (remaining - cost) * gain - cost * loss

    found = max((optimum, *_steps_from_home(state)), key=worth)
    return found if worth(found) > 0 else None


def _seconds_after(state: ResolveState) -> Iterator[Seconds]:
    """seconds[block][place] in what was there before: quiet, and the last disturbances."""
    quiet = state.quiet
    yield quiet
    for factors in state.history.factors:
        yield disturbed_seconds(state.setting, quiet, factors)


def _steps_from_home(state: ResolveState) -> Iterator[Arrangement]:
    """One block over a boundary."""
    if isinstance(state.home, Configuration):
        for a, b in pairwise(range(len(state.home))):
            yield move(state.home, a, b)
            yield move(state.home, b, a)
