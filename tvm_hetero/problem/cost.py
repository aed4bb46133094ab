"""What a task costs on a device: seconds, and joules, for any number of elements of a batch."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tvm_hetero.errors import FormatError
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import LEAST, MOST

# How a kernel is computed on a device (`tvm_hetero.kernels.tir.implementation_attr`).
IMPLEMENTATIONS = ("rule", "default", "tuned", "direct")


@dataclass(frozen=True)
class Cost:
    """Time of one execution as a function of the number of batch elements in it.

    `points` are (elements, seconds) with rising elements. Between two points the time is linear,
    before the first it is linear from (0, 0), beyond the last it goes on with the last slope. A
    table whose last slope falls (kernels of some sizes only, or noise) says nothing of larger
    batches, which then take the last point's time an element: going on with that slope would
    make them free. A plain number c is ``Cost(((1, c),))``, which makes n elements take n * c.

    `implementation` says which way of computing the task takes that long; nothing here depends on
    it, and whoever builds the task must build that one.

    `sizes` says for how many elements at once there is a kernel: rising, from 1. An execution of n
    elements is built of the largest that fit, one after the other (`calls_of`); nothing else here
    depends on them, since `points` say what that takes.

    `energy` are (elements, joules) likewise: what the device draws while it executes so many.
    Without them it draws its watts for as long as that takes.
    """

    points: tuple[tuple[int, float], ...]
    implementation: str = "rule"
    sizes: tuple[int, ...] = (1,)
    energy: tuple[tuple[int, float], ...] = ()

    def seconds(self, elements: int) -> float:
        """Seconds that one execution of `elements` >= 1 elements takes.

        Positive if all points are, and beyond the last of them never below it.
        """
        return _at(self.points, elements)

    def joules(self, elements: int, watts: float | None) -> float:
        """What a device of so many watts draws during one execution of `elements` >= 1 elements."""
        if self.energy:
            return _at(self.energy, elements)
        return (watts or 0.0) * self.seconds(elements)

    def scaled(self, factor: float) -> Cost:
        """The same at another pace, and with the same watts."""
        return replace(
            self,
            points=tuple((n, seconds * factor) for n, seconds in self.points),
            energy=tuple((n, joules * factor) for n, joules in self.energy),
        )

    def calls_of(self, elements: int) -> tuple[int, ...]:
        """How many elements each call of a kernel computes in an execution of `elements`."""
        calls: list[int] = []
        for size in reversed(self.sizes):
            count, elements = divmod(elements, size)
            calls += [size] * count
        return tuple(calls)


def _at(points: Sequence[tuple[int, float]], elements: int) -> float:
    """The figure of so many elements (see `Cost`)."""
    found = bisect_left(points, elements, key=lambda point: point[0])
    if found < len(points) and points[found][0] == elements:
        return points[found][1]
    i = min(found, len(points) - 1)
    n0, s0 = points[i - 1] if i > 0 else (0, 0.0)
    n1, s1 = points[i]
    if found == len(points) and s1 < s0:
        n0, s0 = 0, 0.0
    return s1 + (s1 - s0) / (n1 - n0) * (elements - n1)


def check_sizes(sizes: Sequence[int], where: str) -> None:
    """Refuse `Cost.sizes` by which not every number of elements can be computed.

    Raises
    ------
    FormatError
        If they do not rise from 1.
    """
    if not sizes or sizes[0] != 1 or any(b <= a for a, b in pairwise(sizes)):
        raise FormatError(f"{where}: expected rising numbers from 1, got {quote(list(sizes))}")


def check_points(
    points: Sequence[tuple[int, float]], where: str, what: str = "a time", unit: str = "s"
) -> None:
    """Refuse `Cost.points`, or `Cost.energy`, that say nothing for some number of elements.

    Raises
    ------
    FormatError
        If there are none, they do not rise, or a figure is negative, not finite, or not of this
        world.
    """
    sizes = [n for n, _ in points]
    if not points or sizes[0] < 1 or any(b <= a for a, b in pairwise(sizes)):
        got = quote(sizes)
        raise FormatError(f"{where}: expected costs for rising batch sizes from 1, got {got}")
    for n, seconds in points:
        if seconds != 0 and not LEAST <= seconds <= MOST:
            raise FormatError(
                f"{where}: expected {what} of 0, or from {LEAST:g} to {MOST:g} {unit}, "
                f"for {n} elements, got {seconds}"
            )
