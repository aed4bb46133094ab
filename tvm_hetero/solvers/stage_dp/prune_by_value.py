"""Ideals that a chain of stages of a known value can have between two stages.

Let T be a known value, n the numbers of devices of each kind, and let a chain with no stage above T
have ideal I behind its first stages, on u devices (so many of each kind), which leaves n - u for
the rest. For any prices p >= 0 of the kinds

    sum over b in I of           min over k of p_k work_k(b)
    + sum over t open at I of    min over k of p_k leave_k(t)     <=  T sum over k of p_k u_k

as a device of kind k does its blocks and lets its tensors leave in T, which is worth p_k T; and the
same of the rest, with what is not in I, what tensors need to arrive, and n - u. A tensor is open at
I if it is made inside and read outside: some device sends it, and another one gets it.

A way u that breaks this for some prices is none, and an ideal without a way is in no such chain
                                                                                        -> `prune`
Nothing is lost: of all chains of values up to T the same are found, ties included. Memory is not
looked at. Inception v3 of the MSR set has 36,596 ideals; with the value of the DP along one order
some 4,900 are left, each with one way, and the optimum is proven in seconds.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from tvm_hetero.views.array_types import BoolArray, FloatArray
from tvm_hetero.views.ideals import Blocks, IdealFamily
from tvm_hetero.views.instance import Instance

# Prices of a kind in units of its pace (1 over what all work takes there), beside 1 for the others;
# those of few kinds are combined.
_PRICES = (0.0, 1 / 8, 1 / 2, 4 / 5, 1.0, 5 / 4, 2.0, 8.0)
_FEW_KINDS, _COMBINED = 3, (1 / 2, 1.0, 2.0)
# Ways to use devices up to which each ideal has its own: they are the bits of one number.
MOST_WAYS = 64
# Sums are off by rounding: T is taken to be larger by this part, and by this of all work.
_EASE, _ROUNDING = 1e-9, 1e-12


def prune(instance: Instance, blocks: Blocks, ideals: BoolArray, most: float) -> IdealFamily:
    """The family of those ideals that a chain of value `most` (s) or less may have.

    By work alone first, which needs no tables; by copies, too, of those that are left.
    """
    whole = IdealFamily(instance, blocks, ideals[[0, -1]], nested=False)
    bounds = _ValueBounds(whole, most)
    ways = bounds.by_work(ideals)
    kept = _with_any(ways)
    family = IdealFamily(instance, blocks, ideals[kept], nested=False)
    ways = ways[kept] & bounds.by_copies(family)
    last = _with_any(ways)
    if not last.all():
        family = IdealFamily(instance, blocks, family.ideals[last], nested=False)
    if bounds.named:
        family.restrict(ways[last])
    return family


class _ValueBounds:
    """The inequalities at the head of this file, for all prices at once.

    Attributes
    ----------
    named : whether there is a column for each way; else one for all of them together.
    """

    def __init__(self, family: IdealFamily, most: float) -> None:
        self.family = family
        sizes = np.array([len(kind.devices) for kind in family.kinds])
        work = family.work[-1]
        self.prices = _prices(len(sizes)) / np.where(work > 0, work, 1.0)
        count = math.prod(size + 1 for size in sizes.tolist())
        self.named = count <= MOST_WAYS
        total = self.prices @ family.work[-1]
        ease = _ROUNDING * total + most * _EASE * (self.prices @ sizes)
        if self.named:
            ways = np.array(list(itertools.product(*(range(size + 1) for size in sizes))))
            # (ways, prices): what those devices are worth, and the others.
            self.left = most * (ways @ self.prices.T) + ease
            self.right = most * ((sizes - ways) @ self.prices.T) + ease
        else:
            self.both = most * (self.prices @ sizes) + 2 * ease
        barred = np.isinf(family.block_work)[:, None, :]
        work = np.where(barred, 0.0, family.block_work[:, None, :])
        least = np.where(barred, np.inf, work * self.prices).min(axis=2)
        # What no kind can run makes any value impossible; here it bounds nothing.
        self.block = np.where(np.isinf(least), 0.0, least)

    def by_work(self, ideals: BoolArray) -> BoolArray:
        """(ideals, ways): whether work leaves a way open."""
        inside = ideals.astype(np.float64) @ self.block
        return self._open(inside, self.block.sum(axis=0) - inside)

    def by_copies(self, family: IdealFamily) -> BoolArray:
        """(ideals, ways): whether work and copies leave a way open."""
        inside = family.ideals.astype(np.float64) @ self.block
        outside = self.block.sum(axis=0) - inside
        leave, arrive = (self._least(row) for row in family.kind_hops)
        crossing = family.open.astype(np.float64)
        return self._open(inside + crossing @ leave, outside + crossing @ arrive)

    def _least(self, hops: FloatArray) -> FloatArray:
        """(tensors, prices): the least that a copy is worth."""
        return np.asarray((hops[:, None, :] * self.prices).min(axis=2))

    def _open(self, inside: FloatArray, outside: FloatArray) -> BoolArray:
        if not self.named:
            return np.asarray((inside + outside <= self.both).all(axis=1, keepdims=True))
        found = np.ones((len(inside), len(self.left)), dtype=np.bool_)
        for p in range(len(self.prices)):
            found &= inside[:, p, None] <= self.left[:, p]
            found &= outside[:, p, None] <= self.right[:, p]
        return found


def _prices(kinds: int) -> FloatArray:
    """(prices, kinds): what a second of each kind is worth, in units of its pace."""
    rows = [(1.0,) * kinds]
    for k in range(kinds):
        rows += [tuple(p if k == j else 1.0 for j in range(kinds)) for p in _PRICES]
    if kinds <= _FEW_KINDS:
        rows += itertools.product(_COMBINED, repeat=kinds)
    return np.array([row for row in dict.fromkeys(rows) if any(row)])


def _with_any(ways: BoolArray) -> BoolArray:
    """The ideals that have a way; the first and the last one stay whatever their bounds say."""
    kept = np.asarray(ways.any(axis=1))
    kept[[0, -1]] = True
    return kept
