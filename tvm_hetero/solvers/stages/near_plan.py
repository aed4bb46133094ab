"""Contiguous stages near a plan: the best chain of ideals of a family around that of the plan.

Where a graph has too many ideals for a dynamic program over all of them, one over some is a search
of a large neighbourhood (P. Shaw, CP 1998, doi:10.1007/3-540-49481-2_30): many borders between
stages, the kinds of their devices and the order of these may change at once, which a search that
moves block by block does not come to. Let 0 = I0 < I1 < ... < Ik = V be the chain of a plan. The
family has

    all I(s), and of the ideals J with I(s) <= J <= I(s + m), for every s, at most w of each size
                                                                              -> `ideals_near`

chosen at random among those that grow from one that was chosen: m is `_SPAN`, and w follows from
how many ideals there may be. A border of a better chain thus lies within m stages of where it was,
and any border may be left out. The chain of the plan is in the family, so that what is found is
no worse                                                                      -> `improve_near`

On 200 tasks in series and parallel and 28 devices of eight kinds one round came from the plan along
one order, 9.998e-5 s, to 9.3e-5; where annealing ended at 8.89e-5, rounds came to 8.88e-5, and with
a cold annealing after them to 8.87e-5. What all of it reaches there is printed by
`python -m benchmarks.schedule --suite throughput --case series-parallel`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.stage_dp.stage_dp import best_plan
from tvm_hetero.solvers.timing.device_loads import exact_value
from tvm_hetero.util.search_clock import now
from tvm_hetero.views.array_types import BoolArray
from tvm_hetero.views.ideals import Blocks, IdealFamily, contract
from tvm_hetero.views.instance import Instance

# Stages between two ideals of the chain that others are looked for between.
_SPAN = 3
# A value that is lower by less than this part is no better one.
_GAIN = 1e-9


def improve_near(
    instance: Instance,
    plan: Sequence[int],
    *,
    most: int,
    rounds: int,
    seed: int,
    deadline: float,
) -> list[int] | None:
    """A better placement near one of contiguous stages; None if none is found.

    Rounds end with the first that finds nothing.

    Parameters
    ----------
    most : ideals of a round, about.
    rounds : the most of them.
    deadline : of `now`.
    """
    blocks = contract(instance, instance.terminals)
    width = most // (_SPAN * max(1, len(blocks)))
    best, value = list(plan), exact_value(instance, plan)
    rng, first = random.Random(seed), value
    for _ in range(rounds if width > 0 else 0):
        if now() >= deadline:
            break
        chain = chain_of(blocks, best)
        ideals = ideals_near(blocks, chain, rng, width, lambda: now() >= deadline)
        family = IdealFamily(instance, blocks, ideals, nested=False)
        try:
            found, _ = best_plan(instance, family, value, deadline)
        except SolverError:  # no time, or too many ways to use the devices
            break
        reached = value if found is None else exact_value(instance, found)
        if found is None or reached >= value * (1 - _GAIN):
            break
        best, value = found, reached
    return best if value < first else None


def chain_of(blocks: Blocks, plan: Sequence[int]) -> list[int]:
    """The ideals of a plan's chain, blocks as bits: from none to all.

    Of stages that none of the others has to come before, that of the first block is the next.
    """
    home = [plan[members[0]] for members in blocks.members]
    own: dict[int, int] = {}
    for b, device in enumerate(home):
        own[device] = own.get(device, 0) | 1 << b
    waits: dict[int, set[int]] = {device: set() for device in own}
    for b, row in enumerate(blocks.before):
        waits[home[b]].update(home[a] for a in row if home[a] != home[b])
    chain = [0]
    while waits:
        device = next(d for d, before in waits.items() if before.isdisjoint(waits))
        del waits[device]
        chain.append(chain[-1] | own[device])
    return chain


def ideals_near(
    blocks: Blocks,
    chain: Sequence[int],
    rng: random.Random,
    width: int,
    is_late: Callable[[], bool] = lambda: False,
) -> BoolArray:
    """Ideals around a chain (see the head of this file) by rising size: (ideals, blocks).

    Once it is late no more are looked for; those of the chain are among them in any case.
    """
    needs = [sum(1 << a for a in row) for row in blocks.before]
    found = set(chain)
    for s in range(max(1, len(chain) - _SPAN)):
        low, high = chain[s], chain[min(s + _SPAN, len(chain) - 1)]
        inside = [b for b in range(len(blocks)) if (high & ~low) >> b & 1]
        level = [low]
        while level and not is_late():
            bigger = {
                ideal | 1 << b
                for ideal in level
                for b in inside
                if not ideal >> b & 1 and needs[b] & ~ideal == 0
            }
            level = sorted(bigger)
            level = level if len(level) <= width else rng.sample(level, width)
            found.update(level)
    return _table(sorted(found, key=lambda ideal: (ideal.bit_count(), ideal)), len(blocks))


def _table(ideals: Sequence[int], count: int) -> BoolArray:
    """Bits as rows of flags."""
    size = -(-max(1, count) // 8)
    packed = np.frombuffer(b"".join(ideal.to_bytes(size, "little") for ideal in ideals), np.uint8)
    rows = packed.reshape(len(ideals), size)
    return np.unpackbits(rows, axis=1, count=count, bitorder="little").astype(np.bool_)
