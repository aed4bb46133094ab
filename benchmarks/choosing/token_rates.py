"""How many chats a second one machine carries: of the whole load, and of one size.

Each is a share of some load that `choose` rates by simulation. How many requests are drawn goes
with the machine, not with the load of the question, so that a small machine is rated by as many as
a large one. Sizes are Mélange's buckets: here two lengths of prompts by two of outputs, each rated
with requests of the mean size of those in it (Mélange: ten by six, profiled on the GPU).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from benchmarks.choosing.decoder_cases import DecoderCase
from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.choosing import RequestClass
from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.decoder_ways import plan_ways
from tvm_hetero.planning.choosing.rate import capacity_of
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.choosing.steady import steady_rate
from tvm_hetero.planning.requests import ServiceRequest
from tvm_hetero.solvers import Options

# How much more often requests come that a machine is rated with than it could answer them, and the
# most of what it answers that is claimed: which is what it carries where the SLO holds with that.
_MORE, _MOST = 1.25, 0.95
_PROMPTS, _OUTPUTS = 64, 160
_ROUNDS = 2
_PLAN = Options(0.1, deadline=120.0, gap=0.01)


@dataclass(frozen=True)
class SizeBucket:
    """A part of the requests, and the size by which it is rated."""

    prompt: int
    output: int
    part: float


@dataclass(frozen=True)
class MachineRates:
    """A machine with the plan that carries most: requests a second of the load and each bucket."""

    option: ReplicaOption
    mixed: float
    buckets: tuple[float, ...]


def buckets_of(requests: Sequence[ServiceRequest]) -> tuple[SizeBucket, ...]:
    """The sizes of a load; none that nobody has."""
    found: dict[tuple[bool, bool], list[ServiceRequest]] = {}
    for each in requests:
        key = (each.prompt > _PROMPTS, each.output > _OUTPUTS)
        found.setdefault(key, []).append(each)
    return tuple(
        SizeBucket(
            round(statistics.fmean(each.prompt for each in own)),
            round(statistics.fmean(each.output for each in own)),
            len(own) / len(requests),
        )
        for _, own in sorted(found.items())
    )


def rate_machines(
    case: DecoderCase, buckets: Sequence[SizeBucket], tell: Callable[[str], None] = print
) -> list[MachineRates]:
    """Every machine that carries anything within the SLO, with its best plan."""
    found = []
    for offer in case.offers:
        best: tuple[float, ReplicaOption] | None = None
        for batch in case.batches:
            try:
                ways = plan_ways(case.variant, offer, batch, _PLAN)
            except (InfeasibleError, SolverError) as error:
                # Weights and caches have no room, or hardly any: none was found.
                tell(f"{offer.name}, batches of {batch}: {error}")
                continue
            for option in reversed(ways):  # pipelines take least time to rate
                if best is not None and most_carried(option, case) <= best[0]:
                    continue
                mixed = carried(option, case.asked, case.rated_by)
                if mixed > 0 and (best is None or mixed > best[0]):
                    best = mixed, option
        if best is not None:
            sizes = tuple(carried(best[1], _of_size(case, each), case.rated_by) for each in buckets)
            found.append(MachineRates(best[1], best[0], sizes))
            tell(f"{best[1].name}: {best[0]:.3g} a second")
    return found


def _of_size(case: DecoderCase, bucket: SizeBucket) -> Callable[[float, float], RequestClass]:
    """The load with all requests of one size."""

    def asked(rate: float, seconds: float) -> RequestClass:
        drawn = case.asked(rate, seconds)
        alike = (replace(r, prompt=bucket.prompt, output=bucket.output) for r in drawn.requests)
        return replace(drawn, requests=tuple(alike))

    return asked


def most_carried(option: ReplicaOption, case: DecoderCase) -> float:
    """What `carried` says at most of the whole load."""
    return _MOST * steady_rate(option, case.asked(case.rated_by, 1.0))


def carried(
    option: ReplicaOption, asked: Callable[[float, float], RequestClass], count: int
) -> float:
    """Requests a second that a machine takes within the SLO, rated by so many; 0 if not few.

    By twice as many as it has slots at least: with fewer its slots are never full.
    """
    slots = option.service.groups * option.service.batch
    count = max(count, _ROUNDS * slots)
    rate = _MORE * steady_rate(option, asked(count, 1.0))
    seconds = count / rate
    share, _ = capacity_of(option, asked(rate, seconds), seconds, int(UNITS * _MOST / _MORE))
    return share / UNITS * rate
