"""Open dimensions: which sizes each may have, and which size a request is of.

An *axis* is a dimension that is left open, by its symbol in the model (``width``), or by where it
stands (``x[3]``) if it has none. Dimensions of one symbol are one axis, so they move together. A
*size* is a number for each axis; that of a request follows from the shapes of its inputs.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.util.untrusted_names import printable

LARGEST = 2**24
"""The largest size of a dimension: kernels of larger ones would index past 32 bits soon."""

# One number for each axis, in the order of the axes.
Size = tuple[int, ...]
# A dimension as the user gives it: a number, or the sizes that it may have.
Dimension = int | Sequence[int]


@dataclass(frozen=True)
class OpenAxis:
    """An open dimension and its sizes: a ``range``, or a tuple of those that are served."""

    name: str
    sizes: Sequence[int]

    def __post_init__(self) -> None:
        what = f"dimension {printable(self.name)}"
        if not self.sizes:
            raise UsageError(f"{what}: there is no size in {sizes_text(self.sizes)}")
        # A range may be long: it is never walked over.
        rising: Sequence[int]
        if isinstance(self.sizes, range):
            rising = self.sizes if self.sizes.step > 0 else self.sizes[::-1]
        else:
            rising = tuple(sorted(set(self.sizes)))
        if rising[0] < 1 or rising[-1] > LARGEST:
            raise UsageError(
                f"{what}: expected sizes of 1 to {LARGEST}, got {sizes_text(self.sizes)}"
            )
        object.__setattr__(self, "sizes", rising)

    @property
    def first(self) -> tuple[int, ...]:
        """The sizes that are built at once: all of a list; of a range both ends and the middle."""
        if not isinstance(self.sizes, range):
            return tuple(self.sizes)
        places = {0, (len(self.sizes) - 1) // 2, len(self.sizes) - 1}
        return tuple(self.sizes[place] for place in sorted(places))

    def text(self) -> str:
        """The axis as messages have it: ``width: 160..640/32``."""
        return f"{printable(self.name)}: {sizes_text(self.sizes)}"

    def nearest(self, number: int) -> str:
        """The sizes on either side of a number, in words."""
        place = bisect_left(self.sizes, number)
        after = place + (place < len(self.sizes) and self.sizes[place] == number)
        near = [*self.sizes[max(place - 1, 0) : place], *self.sizes[after : after + 1]]
        return " and ".join(map(str, near))


@dataclass(frozen=True)
class OpenShapes:
    """The inputs of a model, open dimensions by their axes.

    Attributes
    ----------
    axes : at least one.
    shapes : of each input: a number for each dimension, or the name of its axis.
    """

    axes: tuple[OpenAxis, ...]
    shapes: Mapping[str, tuple[int | str, ...]]

    @cached_property
    def first_sizes(self) -> list[Size]:
        """The sizes that are built at once, the smallest first.

        Ranges go from end to end together: their corners are not all built.
        """
        ranges = [axis for axis in self.axes if isinstance(axis.sizes, range)]
        steps = range(max((len(axis.first) for axis in ranges), default=1))
        lists = [axis.first for axis in self.axes if not isinstance(axis.sizes, range)]
        found: dict[Size, None] = {}
        for step, listed in itertools.product(steps, itertools.product(*lists)):
            rest = iter(listed)
            size = tuple(
                axis.first[min(step, len(axis.first) - 1)] if axis in ranges else next(rest)
                for axis in self.axes
            )
            found[size] = None
        return sorted(found)

    def shapes_at(self, size: Size) -> dict[str, tuple[int, ...]]:
        """The shape of each input at a size."""
        number = {axis.name: n for axis, n in zip(self.axes, size, strict=True)}
        return {
            name: tuple(dim if isinstance(dim, int) else number[dim] for dim in dims)
            for name, dims in self.shapes.items()
        }

    def size_of(self, given: Mapping[str, Sequence[int]]) -> Size:
        """The size of a request with inputs of these shapes, in the range or not.

        Raises
        ------
        RunError
            If an input's rank or fixed dimension is another, two dimensions of one axis differ, or
            nothing tells of an axis.
        """
        found: dict[str, tuple[int, str]] = {}
        for name, shape in given.items():
            if name in self.shapes:
                self._read(name, tuple(shape), found)
        for axis in self.axes:
            if axis.name not in found:
                raise RunError(
                    f"no input tells the size of {axis.text()}; expected {self.described}"
                )
        return tuple(found[axis.name][0] for axis in self.axes)

    def _read(self, name: str, shape: tuple[int, ...], found: dict[str, tuple[int, str]]) -> None:
        dims = self.shapes[name]
        if len(shape) != len(dims) or any(
            isinstance(dim, int) and dim != n for dim, n in zip(dims, shape, strict=True)
        ):
            raise RunError(
                f"input {printable(name)}: got shape {list(shape)}, expected {self.described}"
            )
        for dim, number in zip(dims, shape, strict=True):
            if isinstance(dim, str):
                before, where = found.setdefault(dim, (number, name))
                if before != number:
                    raise RunError(
                        f"input {printable(name)}: dimension {printable(dim)} is {number}, but "
                        f"{before} in input {printable(where)}; give both the same size"
                    )

    def in_range(self, size: Size) -> bool:
        """Whether every axis may have its number."""
        return all(n in axis.sizes for axis, n in zip(self.axes, size, strict=True))

    def refuse(self, size: Size) -> str:
        """Why a size is not in the range, in words."""
        wrong = [
            f"{printable(axis.name)} is {n}, and its sizes are {sizes_text(axis.sizes)} (next to "
            f"it {axis.nearest(n)})"
            for axis, n in zip(self.axes, size, strict=True)
            if n not in axis.sizes
        ]
        return "; ".join(wrong)

    @property
    def described(self) -> str:
        """Inputs and axes in words: ``x: [1, 3, 48, width], width: 160..640/32``."""
        inputs = [f"{printable(n)}: [{_dims_text(d)}]" for n, d in self.shapes.items()]
        return ", ".join(inputs + [axis.text() for axis in self.axes])


def sizes_text(sizes: Sequence[int]) -> str:
    """Sizes as the command line takes them: ``160..640/32``, ``160,320``."""
    if isinstance(sizes, range):
        last = sizes[-1] if sizes else sizes.stop - 1
        step = f"/{sizes.step}" if sizes.step != 1 else ""
        return f"{sizes.start}..{last}{step}"
    return ",".join(map(str, sizes))


def size_name(size: Size) -> str:
    """The name of a size's folder: ``160``, of several axes ``1x160``."""
    return "x".join(map(str, size))


def distance(one: Size, other: Size) -> float:
    """How far sizes are apart: the sum of what each number is to its other one, in logarithms."""
    return sum(abs(math.log(a / b)) for a, b in zip(one, other, strict=True))


def _dims_text(dims: Sequence[int | str]) -> str:
    return ", ".join(printable(dim) if isinstance(dim, str) else str(dim) for dim in dims)
