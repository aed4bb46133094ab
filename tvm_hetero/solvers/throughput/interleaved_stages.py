"""Interleaved stages: a few intervals of an order, more than there are devices.

Contiguous stages hand over the least, and lose where no cut divides the work as it has to be
divided. With one or two intervals more a device has a second part of the order, which makes up for
what the first one lacks (Megatron-LM calls such parts virtual stages: D. Narayanan et al., SC 2021,
doi:10.1145/3458817.3476209). So this lies between stages and a plan that scatters tasks.

Problem. Given an order of n blocks and a largest number of changes c, find intervals of it, at most
c + 1, each on a device, such that the largest load is smallest:

    load(d) = sum of seconds[b][d] over the blocks b of the intervals on d

Method: steepest descent, from contiguous stages and from intervals that are drawn (`_drawn`), since
where two ends would have to move at once it stays as it is. One move gives the blocks i .. j-1 to a
device d: it shifts an end, sets an interval into another, joins or exchanges some  -> `_descend`

    load'(e) = load(e) - own(e, j) + own(e, i) + [e = d] (all(d, j) - all(d, i))
    own(e, k), all(e, k) = seconds on e of the first k blocks: of those that are there; of all

All moves are looked at at once; the one with the smallest largest load is made, and of equal ones
that of the smallest variance. It is no exact method: the tests compare it with all intervals of
short chains. Copies are left to whoever compares plans (`fewer_transfers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tvm_hetero.solvers.stage_dp.linear_dp import orders_of
from tvm_hetero.views.array_types import BoolArray, FloatArray, IntArray
from tvm_hetero.views.ideals import Blocks
from tvm_hetero.views.instance import Instance

# Moves are tables of pieces^2 x devices^2 numbers; a hundred pieces on two devices take 20 ms a
# descent. Longer orders are moved in pieces of several blocks.
_MOST_NUMBERS = 40_000
# Descents beside the one from the start.
_DRAWN = 40
# Moves after which a descent ends in any case.
_MOST_MOVES = 200
# What the variance counts beside the largest load.
_EVEN = 1e-3


def interleaved_plans(
    instance: Instance, start: Sequence[int], changes: int, seed: int = 0
) -> Iterator[list[int]]:
    """Placements of at most so many changes of device along an order, one for each order.

    Parameters
    ----------
    start : a placement to begin from, such as contiguous stages.
    seed : of the intervals that are drawn.
    """
    devices = len(instance.names)
    rng = np.random.default_rng(seed)
    for order in orders_of(instance):
        pieces = _pieces(order, devices)
        seconds = _seconds(instance, pieces)
        starts = [np.array([start[piece[0]] for piece in pieces])]
        starts += [_drawn(len(pieces), devices, changes, rng) for _ in range(_DRAWN)]
        found = [_descend(seconds, each, changes) for each in starts]
        _, homes = min(found, key=lambda pair: pair[0])
        placement = list(start)
        for piece, home in zip(pieces, homes, strict=True):
            for part in piece:
                placement[part] = int(home)
        yield placement


def _pieces(order: Blocks, devices: int) -> list[tuple[int, ...]]:
    """Neighbours of the order joined, until there are not too many."""
    most = max(2, int((_MOST_NUMBERS / devices**2) ** 0.5))
    step = -(-len(order) // most)
    return [
        tuple(part for members in order.members[first : first + step] for part in members)
        for first in range(0, len(order), step)
    ]


def _seconds(instance: Instance, pieces: Sequence[Sequence[int]]) -> FloatArray:
    """Seconds of each piece on each device; far too many where a device cannot run it."""
    rows = [[instance.seconds[v] for v in piece] for piece in pieces]
    seconds = np.array([np.sum(row, axis=0) for row in rows])
    runs = np.isfinite(seconds)
    return np.where(runs, seconds, 1e6 * seconds[runs].sum())


def _drawn(count: int, devices: int, changes: int, rng: np.random.Generator) -> IntArray:
    """Intervals with ends and devices at random, neighbours on different ones."""
    changes = min(changes, count - 1) if devices > 1 else 0
    steps = [int(rng.integers(1, devices)) for _ in range(changes)]
    places = np.cumsum([int(rng.integers(devices)), *steps]) % devices
    ends = np.sort(rng.choice(np.arange(1, count), size=changes, replace=False))
    return places[np.searchsorted(ends, np.arange(count), side="right")]


def _descend(seconds: FloatArray, homes: IntArray, changes: int) -> tuple[float, IntArray]:
    """The value of a local optimum, and the device of each piece there."""
    devices = seconds.shape[1]
    every = np.vstack([np.zeros(devices), seconds.cumsum(axis=0)])
    best = np.inf
    for _ in range(_MOST_MOVES):
        here = homes[:, None] == np.arange(devices)
        own = np.vstack([np.zeros(devices), (seconds * here).cumsum(axis=0)])
        values = np.where(_allowed(homes, devices, changes), _values(every, own), np.inf)
        i, j, device = np.unravel_index(int(values.argmin()), values.shape)
        if not values[i, j, device] < best * (1 - 1e-9):
            break
        best = float(values[i, j, device])
        homes = homes.copy()
        homes[i:j] = device
    return best, homes


def _values(every: FloatArray, own: FloatArray) -> FloatArray:
    """The value of each move [i, j, d], of those without any blocks (i >= j) as well."""
    scale = max(float(own[-1].max()), 1e-300)
    left = (own[-1] - own[None, :, :] + own[:, None, :]) / scale  # [i, j, e]
    given = (every[None, :, :] - every[:, None, :]) / scale
    values = np.empty(left.shape)
    for device in range(left.shape[2]):
        loads = left.copy()
        loads[:, :, device] += given[:, :, device]
        values[:, :, device] = loads.max(axis=2) + _EVEN * loads.var(axis=2)
    return scale * values


def _allowed(homes: IntArray, devices: int, changes: int) -> BoolArray:
    """Which moves [i, j, d] move something and leave at most so many changes of device."""
    count = len(homes)
    differs = np.concatenate([[0], homes[1:] != homes[:-1], [0]])  # before each piece, and the end
    before = np.concatenate([[0], differs.cumsum()])
    inside = before[None, 1:] - before[:-1, None]  # [i, j]: changes at i, ..., j
    places, outside = np.arange(devices), np.zeros((1, devices), dtype=bool)
    left = np.vstack([outside, homes[:, None] != places])  # [i, d]: of i - 1 and d
    right = np.vstack([homes[:, None] != places, outside])  # [j, d]: of d and j
    after = differs.sum() - inside[:, :, None] + left[:, None, :] + right[None, :, :]
    i, j = np.indices((count + 1, count + 1))
    allowed: BoolArray = (after <= changes) & (i < j)[:, :, None]
    return allowed
