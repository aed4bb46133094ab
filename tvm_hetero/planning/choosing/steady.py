"""What a replica can go on answering for ever, and how busy a share of a class keeps it.

A load of a few seconds may be more than a replica carries and still end in time: what is left in
the queue when the last request has come is worked off within the SLO. A longer load of the same
rate would break it. So a share is claimed only if its mean rate is below the steady one: what the
replica answers while its queue never ends. Bursts may queue; the mean over the load may not grow.

    network    batches of B follow each other: B / L(B)
    decoder    the class's own requests, all there at once: how fast they are admitted, for each
               that enters a slot another one has left it

The mean rate is that of the time in which the class's requests arrive (`arrival_seconds`), or the
one that they were drawn with, if fewer came than that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.replica_plan import ReplicaOption
from tvm_hetero.planning.choosing.request import RequestClass
from tvm_hetero.planning.requests import ServiceRequest
from tvm_hetero.planning.service import play

# A decoder is saturated with its slots' number of requests so many times, or with so many.
_ROUNDS, _MOST = 5, 256


def arrival_seconds(served: RequestClass, seconds: float) -> float:
    """How long a class's requests arrive: as its trace says, else for the question's `seconds`.

    Never less than from the first to the last of them.
    """
    span = served.requests[-1].arrival - served.requests[0].arrival
    return max(served.seconds or seconds, span)


def arrival_rate(served: RequestClass, seconds: float) -> float:
    """Requests of a class a second, in the mean: those that came, or that were asked for."""
    return max(len(served.requests) / arrival_seconds(served, seconds), served.rate or 0.0)


def steady_rate(option: ReplicaOption, served: RequestClass) -> float:
    """Requests a second that a replica answers for ever (see the head of this file)."""
    if option.seconds:
        return option.batch / option.seconds[option.batch] if option.seconds[-1] else math.inf
    service = option.service
    slots = service.groups * service.batch
    outcome = play(service, _saturating(served.requests, slots), 1.0)
    last = max(each.admitted for each in outcome.served)
    return (len(outcome.served) - slots) / last if last else math.inf


def _saturating(requests: Sequence[ServiceRequest], slots: int) -> list[ServiceRequest]:
    """Requests spread evenly over the class's, all there from the beginning."""
    count = max(_ROUNDS * slots, min(len(requests), _MOST))
    chosen = (requests[i * len(requests) // count] for i in range(count))
    return [replace(each, arrival=0.0) for each in chosen]


def steady_share(rate: float, served: RequestClass, seconds: float) -> int:
    """The largest share of a class, in `UNITS`, whose mean rate is below `rate`."""
    most = rate * UNITS / arrival_rate(served, seconds)
    return UNITS if most > UNITS else math.ceil(most) - 1


def use_of(rate: float, share: int, served: RequestClass, seconds: float) -> float:
    """The mean rate of a share as a part of the steady one: below 1 where it can go on."""
    return share * arrival_rate(served, seconds) / UNITS / rate
