"""Relay's scatters with what they must give, by loops in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tests.frontends.relay.cases import Case, normal, whole

REDUCTIONS = ("update", "add", "mul", "mean", "min", "max")
_APPLY = {
    "update": lambda _, new: new, "add": np.add, "mul": np.multiply,
    "mean": lambda old, new: (old + new) / 2, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def scatter_elements(
    data: np.ndarray, places: np.ndarray, updates: np.ndarray, axis: int, reduction: str = "update"
) -> np.ndarray:
    """Each update at its own coordinates, but for the axis."""
    out = data.copy()
    for here in np.ndindex(*places.shape):
        there = list(here)
        there[axis] = places[here]
        out[tuple(there)] = _APPLY[reduction](out[tuple(there)], updates[here])
    return out


def scatter_nd(
    data: np.ndarray, places: np.ndarray, updates: np.ndarray, mode: str = "update"
) -> np.ndarray:
    """Each update, a value or a block, at the coordinates in the first dimension."""
    out = data.copy()
    for here in np.ndindex(*places.shape[1:]):
        there = tuple(places[(slice(None), *here)])
        out[there] = _APPLY[mode](out[there], updates[here])
    return out


def elements(
    data: np.ndarray, places: np.ndarray, updates: np.ndarray, axis: int = 0,
    reduction: str = "update", constant: Sequence[int] = (),
) -> Case:  # fmt: skip
    """A case of ``scatter_elements``; attributes that have their default are left out."""
    said = f", axis={axis}" if axis else ""
    said += f', reduction="{reduction}"' if reduction != "update" else ""
    expected = scatter_elements(data, places.astype("int64"), updates, axis, reduction)
    inputs = [data, places, updates]
    return Case(f"scatter_elements(%x, %y, %z{said})", inputs, expected, constant)


def nd(
    data: np.ndarray, places: np.ndarray, updates: np.ndarray, mode: str = "update",
    constant: Sequence[int] = (),
) -> Case:  # fmt: skip
    """A case of ``scatter_nd``."""
    said = f', mode="{mode}"' if mode != "update" else ""
    inputs, expected = [data, places, updates], scatter_nd(data, places, updates, mode)
    return Case(f"scatter_nd(%x, %y, %z{said})", inputs, expected, constant)


def _all_reductions() -> list[Case]:
    """Along all axes, from both ends; places repeat, and some are negative."""
    data, cases = normal(3, 4, 5), []
    for reduction, axis in itertools.product(REDUCTIONS, (0, 1, -1)):
        shape = list(data.shape)
        shape[axis] = 6
        extent = data.shape[axis]
        places = whole(*shape, low=-extent, high=extent, seed=axis + 1)
        cases.append(elements(data, places, normal(*shape, seed=2), axis, reduction))
    return cases


def _narrow() -> list[Case]:
    """Places that go only part of the way across the data, in all dimensions or in one."""
    data = normal(3, 4, 5)
    shapes = [(0, (2, 3, 2)), (0, (3, 4, 4)), (0, (3, 3, 5)), (1, (2, 3, 2)), (-1, (2, 2, 3)),
              (-1, (2, 4, 5)), (-1, (3, 3, 5))]  # fmt: skip
    cases = []
    for i, (axis, shape) in enumerate(shapes):
        extent = data.shape[axis]
        places = whole(*shape, low=-extent, high=extent, seed=5)
        updates, known = normal(*shape, seed=6), (1,) if i % 2 else ()
        cases += [elements(data, places, updates, axis, r, known) for r in REDUCTIONS]
    return cases


def _types() -> list[Case]:
    """Other values than floats, other places than int32, constants, and nothing at all."""
    data, updates = whole(4, 3, low=-9, high=9), whole(4, 3, low=-9, high=9, seed=1)
    places = whole(4, 3, high=4, seed=2)
    long, near = np.arange(300, dtype="float32"), np.array([-1, -128, 127, 0], "int8")
    return [
        *(elements(data, places, updates, 0, r) for r in REDUCTIONS if r != "mean"),
        *(
            elements(data, places.astype(kind), updates, constant=known)
            for kind in ("int64", "uint8")
            for known in ((), (1,))
        ),
        *(elements(long, near, normal(4), constant=known) for known in ((), (1,))),
        elements(data > 0, places, updates > 0),
        elements(data, places[:0], updates[:0]),
    ]


def _older() -> list[Case]:
    """The names in older versions."""
    data, places = normal(3, 4), whole(3, 2, low=-4, high=4)
    inputs = [data, places, normal(3, 2, seed=1)]
    return [
        Case("scatter(%x, %y, %z, axis=1)", inputs, scatter_elements(*inputs, 1)),
        Case("scatter_add(%x, %y, %z, axis=-1)", inputs, scatter_elements(*inputs, 1, "add")),
    ]


def _by_coordinates() -> list[Case]:
    """One to all coordinates, of no, one and two dimensions of places; some repeat."""
    data, cases = normal(3, 4, 5), []
    counts: list[tuple[int, ...]] = [(), (6,), (2, 3)]
    modes = [each for each in REDUCTIONS if each != "mean"]
    for mode, coordinates, count in itertools.product(modes, (1, 2, 3), counts):
        rows = [whole(*count, high=data.shape[d], seed=d) for d in range(coordinates)]
        updates = np.asarray(normal(*count, *data.shape[coordinates:], seed=3))
        cases.append(nd(data, np.stack(rows), updates, mode))
    return cases


def _by_coordinates_of_other_types() -> list[Case]:
    data, updates, places = normal(4, 3), normal(2, 3, seed=1), np.array([[3, 0]], "int64")
    return [
        nd(data, places, updates, constant=(1,)),
        nd(data, places.astype("uint8"), updates),
        nd(data > 0, places, updates > 0),
        nd(data, places[:, :0], updates[:0]),
    ]


def scatters() -> list[Case]:
    """All of them."""
    return [
        *_all_reductions(), *_narrow(), *_types(), *_older(), *_by_coordinates(),
        *_by_coordinates_of_other_types(),
    ]  # fmt: skip
