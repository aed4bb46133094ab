"""Every placement of an instance and every order that counts, in C++ (src/search/complete.h)."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_hetero.solvers.native.library import HopTimes, NativeSearch, Result, Settings
from tvm_hetero.views.instance import Hop
from tvm_hetero.views.symmetry import Symmetry


class _SearchSymmetry(ctypes.Structure):
    """TvmHeteroSearchSymmetry."""

    _fields_ = (
        ("images", ctypes.c_int32),
        ("image", ctypes.c_void_p),
        ("before", ctypes.c_void_p),
    )


@dataclass(frozen=True)
class CompleteAnswer:
    """What a complete search found.

    Attributes
    ----------
    finished : whether everything was looked at; else there may be better ones.
    work : nodes of the search.
    value : of the objective; inf if nothing is below the cutoff.
    placement : device of every part.
    starts : of every part, s; all 0 for throughput.
    hops : (tensor, hop) -> start, s.
    """

    finished: bool
    work: int
    value: float
    placement: tuple[int, ...]
    starts: tuple[float, ...]
    hops: dict[tuple[int, Hop], float]


def search_all(
    search: NativeSearch,
    images: Sequence[Sequence[int]],
    symmetry: Symmetry,
    *,
    cutoff: float,
    work: int,
    deadline: float,
) -> CompleteAnswer:
    """The best schedule of an instance with a value below `cutoff`.

    Parameters
    ----------
    images : permutations of the parts that leave the instance as it is; a group with the identity,
        which is left out.
    symmetry : of the devices; its twins are used.
    work : nodes to look at.
    deadline : wall seconds after which it stops at once: a net, not a plan.
    """
    instance = search.instance
    n = len(instance)
    image = np.array([*images], np.int32).reshape(-1)
    before = np.full(len(instance.names), -1, np.int32)
    for twins in symmetry.twins:
        before[list(twins[1:])] = twins[:-1]
    given = _SearchSymmetry(len(images), image.ctypes.data, before.ctypes.data)
    settings = Settings(0, max(1, work), 0, 0.0, deadline, 0)
    places, starts, ends = np.zeros(n, np.int32), np.zeros(n), np.zeros(n)
    # A tensor makes at most one hop over each link.
    room = max(1, len(instance.tensors) * len(instance.names) ** 2)
    hops, result = (HopTimes * room)(), Result()
    search.call(
        "complete", ctypes.byref(settings), ctypes.byref(given), min(cutoff, math.inf),
        places.ctypes.data, starts.ctypes.data, ends.ctypes.data, hops, room,
        ctypes.byref(result),
    )  # fmt: skip
    return CompleteAnswer(
        finished=not result.stopped,
        work=result.work,
        value=result.value,
        placement=tuple(places.tolist()),
        starts=tuple(starts.tolist()),
        hops={(h.tensor, (h.src, h.dst)): h.start for h in hops[: result.hops]},
    )
