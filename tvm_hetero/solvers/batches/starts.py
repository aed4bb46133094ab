"""Where the search for a division begins: a small menu of ways to share a batch.

Devices that can run most of the work share the elements by their speed, so that each is busy
as long as the others: the least T with

    sum over d of max {n : sum over tasks v of seconds(v, d, n) <= T}  >=  B

is found among the times of whole networks            -> `shares`
A batch may go through in R rounds, each shared like that, so that the last tasks of one round
overlap the first of the next; with spare (empty) streams a device may get a second range of its
own                                                   -> `by_speed`
The other way is to take each task whole, as a schedule of whole batches does it  -> `as_placed`
A division that a search has found goes on with an empty stream beside each of its own -> `widened`
Of teams, which share cores, those of one width share the batch: a few starts for each width.
`menu` lists them for an instance. A task that a device of its stream cannot run goes to the device
that is quickest for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers.batches.range_search import Streams, StreamSearch, is_colored
from tvm_hetero.views.array_types import FloatArray, Int32Array

# (spare streams a device, rounds); more rounds where memory is short.
# Starts that mostly win are there more than once: searches from one start end apart.
_MENU = ((1, 1), (1, 1), (1, 1), (2, 1), (2, 1), (1, 2), (1, 2), (1, 3), (1, 4), (1, 8))
_FRUGAL = ((1, 16), (1, 32), (1, 64))
# The menu of each width of teams.
_OF_A_WIDTH = ((1, 1), (2, 1), (1, 2), (1, 4))
# Streams of one task: the time of a decoding grows with them.
_MOST_STREAMS = 64
# Devices that take part are those that can run this part of the tasks.
_ABLE = 0.5


def menu(search: StreamSearch, whole: Schedule | None) -> list[Streams]:
    """The starts for an instance, in a fixed order; at least one."""
    scarce = any(search.instance.memory_binds)
    families = search.instance.problem.platform.families
    own = _MENU if len(families) == 1 else _OF_A_WIDTH
    found = [] if whole is None else [as_placed(search, whole, _workers(search, families[-1]))]
    for family in families:
        devices = _workers(search, family)
        for spare, rounds in (*own, *(_FRUGAL if scarce else ())):
            streams = spare * rounds * len(devices)
            if rounds <= search.batch and (spare * rounds == 1 or streams <= _MOST_STREAMS):
                found.append(by_speed(search, devices, spare, rounds))
    return found


def shares(totals: FloatArray, elements: int) -> list[int]:
    """How many of `elements` each device takes so that the slowest ends first.

    Parameters
    ----------
    totals : (devices, elements + 1 or more), s for so many elements.
    """
    times = np.unique(totals[:, 1 : elements + 1])

    def counts(limit: float) -> list[int]:
        fits = totals[:, : elements + 1] <= limit
        return [int(np.flatnonzero(row).max()) for row in fits]

    low, high = 0, len(times) - 1
    while low < high:
        middle = (low + high) // 2
        if sum(counts(float(times[middle]))) >= elements:
            high = middle
        else:
            low = middle + 1
    found = counts(float(times[low]))
    # What is too many is taken from the device that gains most by it.
    for _ in range(sum(found) - elements):
        held = [d for d, n in enumerate(found) if n]
        slowest = max(held, key=lambda d: (float(totals[d, found[d]]), -d))
        found[slowest] -= 1
    return found


def by_speed(search: StreamSearch, devices: Sequence[int], spare: int, rounds: int) -> Streams:
    """Every task shared by speed, in rounds, with `spare` - 1 empty streams a device and round."""
    totals = _totals(search, devices)
    pattern: list[int] = []
    homes: list[int] = []
    for r in range(rounds):
        own = search.batch * (r + 1) // rounds - search.batch * r // rounds
        for d, count in zip(devices, shares(totals, own), strict=True):
            pattern += [count, *[0] * (spare - 1)]
            homes += [d] * spare
    counts = np.array([pattern] * len(search), np.int32)
    home = np.array([homes] * len(search), np.int32)
    return _finished(search, counts, home)


def as_placed(search: StreamSearch, schedule: Schedule, devices: Sequence[int]) -> Streams:
    """Every task whole on the device that takes most of it in a schedule, with spare streams."""
    index = search.instance.problem.platform.index
    most: dict[str, tuple[int, int]] = {}
    for execution in schedule.executions:
        size = (len(execution.elements), -index[execution.device])
        most[execution.task] = max(most.get(execution.task, (0, 0)), size)
    homes = [-most[search.instance.tasks[v]][1] for v in search.instance.order]
    streams = 2 * len(devices) + 1
    home = np.array([[d, *devices, *devices] for d in homes], np.int32)
    counts = np.zeros((len(search), streams), np.int32)
    counts[:, 0] = search.batch
    return _finished(search, counts, home)


def widened(streams: Streams) -> Streams:
    """The same division with an empty stream behind each, on its device; itself if too many.

    A search of few streams soon finds how devices share a task; with as many again it may let
    executions overlap that wait for each other.
    """
    tasks, count = streams.counts.shape
    if 2 * count > _MOST_STREAMS:
        return streams
    counts = np.zeros((tasks, 2 * count), np.int32)
    counts[:, ::2] = streams.counts
    # Item (task, stream) becomes items (task, 2 stream) and the next one.
    own = 2 * streams.sequence
    sequence = np.stack([own, own + 1], axis=1).ravel()
    return Streams(counts, streams.device.repeat(2, axis=1), sequence.astype(np.int32))


def _finished(search: StreamSearch, counts: Int32Array, home: Int32Array) -> Streams:
    """Devices that can run their streams, undivided tasks whole, and an order."""
    streams = counts.shape[1]
    able = np.isfinite(search.seconds[:, :, 1])
    quickest = np.where(able, search.seconds[:, :, -1], math.inf).argmin(axis=1)
    instance = search.instance
    for i, v in enumerate(instance.order):
        home[i] = np.where(able[i, home[i]], home[i], quickest[i])
        if search.loose[i] or is_colored(instance, instance.group_of[v]):
            counts[i] = 0
            counts[i, 0] = search.batch
    places = {v: i for i, v in enumerate(instance.order)}
    for g, group in enumerate(instance.groups):
        if is_colored(instance, g):
            own = [places[v] for v in group]
            home[own] = int(search.seconds[own, :, -1].sum(axis=0).argmin())
    return Streams(counts, home, np.arange(len(search) * streams, dtype=np.int32))


def _workers(search: StreamSearch, among: Sequence[int]) -> list[int]:
    """Devices that can run most of the tasks that take time, the quickest first; at least one."""
    busy = ~np.array(search.loose)
    able = np.isfinite(search.seconds[busy, :, 1])
    share = able.mean(axis=0) if busy.any() else np.isfinite(search.seconds[:, :, 1]).mean(axis=0)
    most = min(_ABLE, float(share[list(among)].max()))
    devices = [d for d in among if share[d] >= most]
    totals = _totals(search, devices)[:, -1]
    return [d for _, d in sorted(zip(totals.tolist(), devices, strict=True))]


def _totals(search: StreamSearch, devices: Sequence[int]) -> FloatArray:
    """(devices, batch + 1): all that a device can run, for so many elements, at most, s."""
    rows = np.where(np.isfinite(search.seconds), search.seconds, 0.0).sum(axis=0)[list(devices)]
    # More elements never take less, so that shares can be found by halving.
    totals: FloatArray = np.maximum.accumulate(rows, axis=1)
    return totals
