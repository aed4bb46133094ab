"""Where the temporaries of a segment lie in its worker's scratch arena.

The problem. A segment makes tensors that no one outside of it reads. Each is alive from the call
that writes it to the last one that reads it, both included, and needs `size` bytes all that time.
Give each an offset so that no two that are alive together overlap, and the arena, the largest
offset + size, is small: it is memory, and above all it is what the caches hold. (This is *dynamic
storage allocation*; the best answer is NP-hard to find: M. R. Garey and D. S. Johnson, "Computers
and Intractability", 1979, problem SR2.)

No arena can be smaller than the most bytes that are alive at one call (`least_bytes`).

The method is greedy by breadth (Y. Pisarchyk and J. Lee, "Efficient memory management for deep
neural net inference", arXiv:2001.03288): tensors of the fullest call first, of these the largest
first; each at the lower end of the smallest gap that is wide enough between those that live with
it. The fullest calls decide how large the arena is, so what they need chooses first.

All offsets and sizes are multiples of 64 bytes: a cache line, and what TVM's kernels expect.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A tensor of `size` bytes that calls number `first` to `last` of a segment need."""

    size: int
    first: int
    last: int


def plan_storage(tensors: Sequence[Lifetime]) -> tuple[list[int], int]:
    """Give each tensor an offset (see the file's text); deterministic.

    Returns
    -------
    The offsets, and the bytes of the arena.
    """
    sizes = [align_up(tensor.size) for tensor in tensors]
    alive = _bytes_alive(tensors)
    # The bytes of the fullest call of each life.
    breadth = [int(alive[tensor.first : tensor.last + 1].max()) for tensor in tensors]
    order = sorted(range(len(tensors)), key=lambda i: (-breadth[i], -sizes[i], i))
    # Rows of those that have their place, in numpy: a batch on one device has thousands.
    placed = np.zeros((len(tensors), 4), dtype=np.int64)
    offsets = [0] * len(tensors)
    for count, i in enumerate(order):
        first, last = tensors[i].first, tensors[i].last
        done = placed[:count]
        together = done[(done[:, 0] <= last) & (first <= done[:, 1])]
        offsets[i] = _best_gap(together[np.argsort(together[:, 2], kind="stable"), 2:], sizes[i])
        placed[count] = first, last, offsets[i], offsets[i] + sizes[i]
    return offsets, max((o + s for o, s in zip(offsets, sizes, strict=True)), default=0)


def _best_gap(taken: np.ndarray[tuple[int, int], np.dtype[np.int64]], size: int) -> int:
    """The start of the smallest gap of at least `size` bytes between what is `taken`: rows of
    (start, end) by start. Behind the last of them there is room without end.
    """
    best, width, free = -1, 0, 0
    for start, end in taken.tolist():
        gap = start - free
        if gap >= size and (best < 0 or gap < width):
            best, width = free, gap
        free = max(free, end)
    return free if best < 0 else best


def least_bytes(tensors: Sequence[Lifetime]) -> int:
    """The most bytes that are alive at one call: no arena can be smaller."""
    return int(_bytes_alive(tensors).max(initial=0))


def _bytes_alive(tensors: Sequence[Lifetime]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The bytes that are alive at each call."""
    change = np.zeros(2 + max((tensor.last for tensor in tensors), default=0), dtype=np.int64)
    for tensor in tensors:
        change[tensor.first] += align_up(tensor.size)
        change[tensor.last + 1] -= align_up(tensor.size)
    return np.cumsum(change)


def align_up(size: int) -> int:
    """`size`, rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT
