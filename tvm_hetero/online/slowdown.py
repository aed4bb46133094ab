"""How much slower each place is than it was, by what bounds the blocks on it.

In quiet a place e takes c for the compute-bound blocks of its stage and m for the memory-bound
ones. Disturbed, it takes t. What is wanted are the factors f_c and f_m of the two classes:

    least   sum over observations of (f_c c / t + f_m m / t - 1)^2  +  r (f_c - f_m)^2

One stage time cannot tell the two apart, so the last term (r is small) makes them one factor until
stages with another mixture were seen under the same disturbance. Where the kernel said that the
core was not shared (`StageTime.delay_seconds`), a cache or memory is: then the last term is
r (f_c - 1)^2 and the memory-bound blocks take the blame, unless that made them absurdly slow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.own_plan import Parts, parts_of
from tvm_hetero.online.policy import Setting

# The weight r, and what no factor exceeds before another explanation is looked for.
_WEAK, _ABSURD = 1e-3, 6.0
_LEAST = 0.05
# A core is shared if waiting for it explains this share of what a stage takes longer.
_SHARED = 0.3

Factors = tuple[float, float]
EQUAL: Factors = (1.0, 1.0)


@dataclass(frozen=True)
class _Sample:
    """Quiet seconds of the two classes, the time seen, and whether memory is blamed for it."""

    compute: float
    memory: float
    seconds: float
    blame_memory: bool


def estimate_factors(
    setting: Setting,
    quiet: Sequence[Sequence[float]],
    observations: Sequence[Observation],
    *,
    blame_memory: bool = False,
) -> dict[int, Factors]:
    """(f_c, f_m) of every place that some observation used; all under one disturbance.

    With `blame_memory` memory is blamed whatever the kernel said: the other explanation.
    """
    samples: dict[int, list[_Sample]] = {}
    for observation in observations:
        arrangement = observation.configuration
        for parts, place, stage in zip(
            parts_of(arrangement), arrangement.places, observation.stages, strict=True
        ):
            sample = _sample(setting, quiet, parts, place, stage)
            samples.setdefault(place, []).append(sample)
    return {place: _fit(rows, blame_memory) for place, rows in samples.items()}


def disturbed_seconds(
    setting: Setting, quiet: Sequence[Sequence[float]], factors: Sequence[Factors]
) -> list[list[float]]:
    """seconds[block][place] with the factors of each place."""
    return [
        [time * factors[p][_is_memory(setting, b)] for p, time in enumerate(row)]
        for b, row in enumerate(quiet)
    ]


def _is_memory(setting: Setting, block: int) -> bool:
    return bool(setting.classes) and setting.classes[block] == "memory"


def _sample(
    setting: Setting, quiet: Sequence[Sequence[float]], parts: Parts, place: int, stage: StageTime
) -> _Sample:
    compute = sum(r * quiet[b][place] for b, r in parts if not _is_memory(setting, b))
    memory = sum(r * quiet[b][place] for b, r in parts if _is_memory(setting, b))
    lost = stage.seconds - compute - memory
    blame = stage.delay_seconds is not None and stage.delay_seconds < _SHARED * lost
    return _Sample(compute, memory, stage.seconds, blame)


def _fit(samples: Sequence[_Sample], blame_memory: bool) -> Factors:
    """The factors, both scaled so that the newest time is met exactly."""
    compute, memory = _balanced(samples, blame_memory)
    last = samples[-1]
    scale = last.seconds / (compute * last.compute + memory * last.memory)
    return compute * scale, memory * scale


def _balanced(samples: Sequence[_Sample], blame_memory: bool) -> Factors:
    if blame_memory or any(sample.blame_memory for sample in samples):
        compute, memory = _solve(samples, blame_memory=True)
        if memory <= _ABSURD:
            return max(1.0, compute), memory
    return _solve(samples, blame_memory=False)


def _solve(samples: Sequence[_Sample], *, blame_memory: bool) -> Factors:
    """The two normal equations, by Cramer's rule; they have one solution, as r > 0."""
    rows = [(s.compute / s.seconds, s.memory / s.seconds) for s in samples]
    cc, mm = sum(c * c for c, _ in rows), sum(m * m for _, m in rows)
    cm = sum(c * m for c, m in rows)
    right_c, right_m = sum(c for c, _ in rows), sum(m for _, m in rows)
    if blame_memory and mm > 0:
        cc, right_c = cc + _WEAK, right_c + _WEAK
    else:
        cc, mm, cm = cc + _WEAK, mm + _WEAK, cm - _WEAK
    determinant = cc * mm - cm * cm
    compute = (right_c * mm - right_m * cm) / determinant
    memory = (cc * right_m - cm * right_c) / determinant
    return max(_LEAST, compute), max(_LEAST, memory)
