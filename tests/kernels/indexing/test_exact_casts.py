"""Indices that are cast: what TVM takes for the number before the cast is what it is after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx, topi

from tests.kernels.helpers import AVX2
from tests.kernels.indexing.test_checks import FLOAT, INT, TABLE, call, kernel
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.indexing.exact_casts import exact_cast, with_exact_casts
from tvm_hetero.kernels.indexing.masks import add_masks


def gather(*kinds: str, mode: str = "fast") -> Callable[..., te.Tensor]:
    """Rows of a table by indices that are cast to types, one after the other."""

    def rows(table: te.Tensor, index: te.Tensor) -> te.Tensor:
        for kind in kinds:
            index = index.astype(kind)
        return topi.take(table, index, axis=0, mode=mode)

    return rows


# The type of the index, the types that it is cast to, and a number that then is none of 0 .. 4.
OUTSIDE = [
    ("uint64", (), 2**64 - 1),
    ("uint64", (), 2**63),
    ("uint64", (INT,), 2**64 - 2),
    ("uint64", ("int32",), 2**32 - 1),
    ("uint32", ("int32",), 2**32 - 1),
    ("uint16", ("int8",), 200),
    ("uint8", ("int8",), 255),
    ("uint8", ("int8", INT), 250),
    ("int32", ("uint32",), -1),
    ("int8", ("uint64",), -1),
    (INT, ("uint64",), -1),
    (INT, ("uint8",), 255),
]


@pytest.mark.parametrize(("given", "kinds", "wrong"), OUTSIDE)
def test_what_a_cast_makes_of_an_index_is_looked_at(
    given: str, kinds: tuple[str, ...], wrong: int
) -> None:
    func = kernel([((5, 4), FLOAT), ((3,), given)], gather(*kinds))
    made, out = schedule_kernel(func, AVX2), np.zeros((3, 4), FLOAT)
    call(made, TABLE, np.array([4, 0, 1], given), out)
    np.testing.assert_array_equal(out, TABLE[[4, 0, 1]])
    with pytest.raises(IndexError, match="is out of bounds for axis 0 of size 5"):
        call(made, TABLE, np.array([0, wrong, 1], given), out)
    call(add_masks(func), TABLE, np.array([0, wrong, 1], given), out)
    np.testing.assert_array_equal(out, [TABLE[0], [np.nan] * 4, TABLE[1]])


@pytest.mark.parametrize(("mode", "row"), [("clip", 0), ("wrap", 4)])
def test_a_cast_index_is_kept_in_bounds_by_what_it_becomes(mode: str, row: int) -> None:
    func = kernel([((5, 4), FLOAT), ((3,), "uint8")], gather("int8", mode=mode))
    out = np.zeros((3, 4), FLOAT)
    call(schedule_kernel(func, AVX2), TABLE, np.full(3, 255, "uint8"), out)
    np.testing.assert_array_equal(out, TABLE[[row] * 3])


CASTS = [
    (given, kind)
    for given in ("int8", "uint8", "int32", "uint32", INT, "uint64")
    for kind in ("int8", "uint8", "int16", "uint32", "uint64", INT)
    if given != kind
]


@pytest.mark.parametrize(("given", "kind"), CASTS)
@pytest.mark.parametrize("rest", [None, 300], ids=["any", "a remainder"])
def test_exact_casts_compute_what_casts_do(given: str, kind: str, rest: int | None) -> None:
    if rest is not None and np.iinfo(given).max < rest:
        rest = 100

    def cast(index: te.Tensor) -> te.Tensor:
        def one(i: tirx.Var) -> Any:
            number = index(i)
            if rest is not None:
                number = tirx.truncmod(number, tirx.const(rest, given))
            return exact_cast(kind, number)

        return te.compute((6,), one)

    limits = np.iinfo(given)
    numbers = np.array([0, 1, 100, limits.min, limits.max, limits.max - 3], given)
    expected = numbers if rest is None else np.fmod(numbers, np.array(rest, given))
    found = np.zeros(6, kind)
    call(kernel([((6,), given)], cast), numbers, found)
    np.testing.assert_array_equal(found, expected.astype(kind))


def test_casts_that_tvm_understands_stay() -> None:
    for given, kind in ((INT, "int32"), ("uint8", INT), (INT, "uint8"), ("float32", INT)):
        func = kernel([((5, 4), FLOAT), ((3,), given)], gather(kind))
        assert with_exact_casts(func).same_as(func)
