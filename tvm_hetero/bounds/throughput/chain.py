"""A lower bound of the busiest device where the tasks form a chain: no device can do it all.

Shares (`share_program`) let every task run everywhere a little, and then nothing is copied.
This bound keeps tasks whole. Let the groups g1, g2, ..., gn be in the only topological order that
the graph admits, so that each reads from the one before it (GPT, ResNet; skip edges do no harm),
and let some plan of value U be known. In a better plan

    - a maximal run of neighbours gi+1 .. gj on one device d has work of at most U there, so
      the devices change often enough, and
    - where they change from d to e, the tensors from one group to the next leave d and arrive at e.

With weights w(d) >= 0 of sum 1, T is no less than the mean load. So it is no less than the
cheapest way along the chain that keeps to such runs, which has a dynamic program (kinds of equal
devices share a weight; a run may follow one of its kind if there are two such devices):

    F(j, c) = min over i < j, work(c, i..j) <= U, of
              G(i, c) + w(c) work(c, i..j)                                         -> `_cheapest`
    G(i, c) = min over kinds e of F(i, e) + w(e) leave(i, e) + w(c) arrive(i, c)

The weights are improved by subgradients: the loads of the cheapest way say which to raise
(M. Held and R. Karp, Math. Programming 1, 1971, doi:10.1007/BF01584070). Any weights give a
proof: the optimum is at least min(U, F(n)).
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tvm_hetero.bounds.throughput.share_program import rates
from tvm_hetero.views.ideals import Kind, contract, kinds_of, least_hops
from tvm_hetero.views.instance import Instance

Floats = NDArray[np.float64]
_ROUNDING = 1 - 1e-11
# Rounds of the subgradient method; the gain of later ones was below 0.01 %.
_ROUNDS = 40
_FIRST_STEP = 0.1


@dataclass(frozen=True)
class _DeviceChain:
    """Kinds of devices, work of all groups up to each (groups + 1, kinds), and what a cut costs."""

    kinds: tuple[Kind, ...]
    work: Floats
    arrive: Floats
    leave: Floats
    limit: float


def chain_bound(instance: Instance, value: float, weights: Floats) -> float:
    """The bound at the head of this file, s; 0 where the graph is no chain.

    Parameters
    ----------
    value : of a plan that is known, s; or anything that is no less than the optimum.
    weights : of the devices, to begin from (any that are not negative; none are 0 afterwards).
    """
    if not 0 < value < math.inf or instance.problem.batch > 1:
        return 0.0
    chain = _chain(instance, value * (1 + 1e-9))
    if chain is None:
        return 0.0
    counts = np.array([len(kind.devices) for kind in chain.kinds], dtype=np.float64)
    weight = np.array([weights[kind.devices[0]] for kind in chain.kinds])
    weight = np.maximum(weight, 1e-3 / counts.sum())
    weight /= float(weight @ counts)
    best = 0.0
    for i in range(_ROUNDS):
        bound, loads = _cheapest(chain, weight)
        best = max(best, min(value, bound))
        if bound >= value:
            break
        step = _FIRST_STEP / (1 + i / 4)
        weight = weight * np.exp(step * np.clip(loads / counts / value - 1, -1, 1))
        weight /= float(weight @ counts)
    return best * _ROUNDING


def _chain(instance: Instance, limit: float) -> _DeviceChain | None:
    """The figures of the chain; None if the graph admits more than one order."""
    blocks = contract(instance)
    if len(blocks) < len(instance.groups):
        return None
    if any(b - 1 not in row for b, row in enumerate(blocks.before) if b):
        return None
    arrive, leave = least_hops(instance)
    kinds = kinds_of(instance, arrive, leave)
    first = [kind.devices[0] for kind in kinds]
    rate = rates(instance)[:, first]
    place = {v: b for b, block in enumerate(blocks.members) for v in block}
    work = np.zeros((len(blocks) + 1, len(kinds)))
    enters, leaves = np.zeros_like(work), np.zeros_like(work)
    for v, b in place.items():
        work[b + 1] += rate[v]
    for t, flow in enumerate(instance.tensors):
        b = place[flow.maker]
        if any(place[w] == b + 1 for w in flow.readers):
            enters[b + 1] += arrive[t, first]
            leaves[b + 1] += leave[t, first]
    barred = ~np.isfinite(work)
    # A task that a kind cannot run makes every run across it too long.
    work[barred] = 4 * limit
    return _DeviceChain(kinds, np.cumsum(work, axis=0), enters, leaves, limit)


def _cheapest(chain: _DeviceChain, weight: Floats) -> tuple[float, Floats]:
    """The cost of the cheapest way along the chain, and its loads by kind (s)."""
    n, kinds = len(chain.work) - 1, range(len(chain.kinds))
    work = chain.work.T.tolist()
    into = (chain.arrive * weight).T.tolist()
    out = (chain.leave * weight).T.tolist()
    price = weight.tolist()
    start = [[0.0] * (n + 1) for _ in kinds]
    end = [[math.inf] * (n + 1) for _ in kinds]
    before = [[-1] * (n + 1) for _ in kinds]
    since = [[0] * (n + 1) for _ in kinds]
    windows: list[deque[tuple[float, int]]] = [deque([(0.0, 0)]) for _ in kinds]
    for j in range(1, n + 1):
        for c in kinds:
            window, done = windows[c], work[c]
            while window and done[j] - done[window[0][1]] > chain.limit:
                window.popleft()
            if window:
                end[c][j] = window[0][0] + price[c] * done[j]
                since[c][j] = window[0][1]
        for c in kinds:
            others = [e for e in kinds if e != c or len(chain.kinds[c].devices) > 1]
            e = min(others, key=lambda e: end[e][j] + out[e][j], default=-1)
            cost = end[e][j] + out[e][j] + into[c][j] if e >= 0 else math.inf
            start[c][j], before[c][j] = cost, e
            key = cost - price[c] * work[c][j]
            while windows[c] and windows[c][-1][0] >= key:
                windows[c].pop()
            if cost < math.inf:
                windows[c].append((key, j))
    last = min(kinds, key=lambda c: end[c][n])
    return end[last][n], _loads(chain, last, before, since) if end[last][n] < math.inf else weight


def _loads(
    chain: _DeviceChain, last: int, before: list[list[int]], since: list[list[int]]
) -> Floats:
    """The loads of the way that ends with a run of kind `last`."""
    loads = np.zeros(len(chain.kinds))
    c, j = last, len(chain.work) - 1
    while j > 0:
        i = since[c][j]
        loads[c] += chain.work[j, c] - chain.work[i, c]
        if i > 0:
            loads[c] += chain.arrive[i, c]
            e = before[c][i]
            loads[e] += chain.leave[i, e]
            c = e
        j = i
    return loads
