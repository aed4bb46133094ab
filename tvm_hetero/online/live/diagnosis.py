"""Why a stage takes longer than it did: whose fault it is, as far as the kernel tells.

Of a stage that takes t instead of b, of which the thread was on a core for u instead of v, and
wanted one without having it for r instead of q (`tvm_hetero.executor.watching`):

    a shared core       r - q is most of t - b
    cache or memory     u - v is most of t - b, but not on all places alike
    the clock           u - v is most of t - b, by the same factor on all places
    something else      neither: pages, copies, locks
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_hetero.online.configuration import Place
from tvm_hetero.online.observation import Observation, StageTime

# What is slower by less than this is not slower.
_LEAST = 0.08
# Factors that differ by less than this are the same.
_ALIKE = 0.05


def explain(base: Observation, seen: Observation, places: Sequence[Place]) -> str:
    """A sentence on the stage that has become slower by the largest factor; "" if none has."""
    factors = [b.seconds / a.seconds for a, b in zip(base.stages, seen.stages, strict=True)]
    worst = max(range(len(factors)), key=lambda s: (factors[s], -s))
    if factors[worst] < 1 + _LEAST:
        return ""
    name = places[seen.configuration.places[worst]].name
    cause = _cause(base.stages[worst], seen.stages[worst], _alike(base, seen))
    return f"stage {worst} on {name} takes {factors[worst]:.2f} times as long: {cause}"


def _alike(base: Observation, seen: Observation) -> bool:
    """Whether the threads of all stages, of which there are several, need longer by one factor."""
    pairs = [(a.cpu_seconds, b.cpu_seconds) for a, b in zip(base.stages, seen.stages, strict=True)]
    factors = [b / a for a, b in pairs if a and b]
    whole = len(factors) == len(pairs) > 1
    return whole and min(factors) > 1 + _LEAST and max(factors) < (1 + _ALIKE) * min(factors)


def _cause(base: StageTime, seen: StageTime, alike: bool) -> str:
    if seen.cpu_seconds is None or base.cpu_seconds is None:
        return "of unknown cause"
    longer = seen.seconds - base.seconds
    queued = (seen.delay_seconds or 0.0) - (base.delay_seconds or 0.0)
    worked = seen.cpu_seconds - base.cpu_seconds
    if queued > longer / 2:
        return "another program has a share of its core"
    if worked <= longer / 2:
        return "it waits for something that is neither its core nor its memory"
    if alike:
        return "the cores' clock is slower"
    return "another program takes cache or memory bandwidth"
