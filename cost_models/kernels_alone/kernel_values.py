"""What kernels are run on, and how what two of them made of it is compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

# Values of a tensor that are drawn; a larger one repeats them. Drawing the 100 million of VGG-19's
# first dense layer, round by round, took longer than running it. A prime: no row equals the next.
_DISTINCT = 1_048_573
# By how much of the largest value two right outputs may differ, by bytes of a value: sums in
# another order, of up to some ten thousand values.
_TOLERANCE = {1: 0.3, 2: 0.03, 4: 1e-4}
# The share of whole numbers that a rounding may make their neighbours.
_NEIGHBOURS = 1e-3


def sample(seed: int, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    """Data to run a kernel on: the same for the same arguments.

    Floats are between 0.1 and 1: zeros would hide denormals and let hardware cut corners, and
    negative ones have no logarithm. Integers are 0, since most are indices, and kernels refuse
    those out of bounds; truth values are random.
    """
    if dtype == "bool":
        return np.random.default_rng(seed).random(shape) < 0.5
    kind = np.dtype(_numpy_name(dtype))
    if kind.kind in "iu":
        return np.zeros(shape, kind)
    size = math.prod(shape)
    values = _drawn(seed)[: min(size, _DISTINCT)].astype(kind)
    return np.resize(values, shape) if size else values.reshape(shape)


@lru_cache(maxsize=16)
def _drawn(seed: int) -> np.ndarray[Any, Any]:
    """Values between 0.1 and 1. Drawn once: kernels are measured in rounds, each of which draws."""
    values = np.random.default_rng(seed).random(_DISTINCT, np.float32)
    values = values * np.float32(0.9) + np.float32(0.1)
    values.flags.writeable = False
    return values


def signed_sample(seed: int, shape: Sequence[int], dtype: str) -> np.ndarray[Any, Any]:
    """Data to compare implementations on: as `sample`, with both signs, and bytes that differ.

    What a relu cuts off must be seen. Square roots and logarithms then are NaN here and there, of
    one implementation as of the other. 8-bit integers are quantities; wider ones may be indices.
    """
    values = sample(seed, shape, dtype)
    generator = np.random.default_rng([seed, 1])
    if values.dtype.kind == "b":
        return values
    if values.dtype.kind in "iu":
        wide = values.dtype.itemsize > 1
        return values if wide else generator.integers(0, 100, shape).astype(values.dtype)
    signs = generator.random(min(values.size, _DISTINCT), np.float32) < 0.5
    return np.where(np.resize(signs, shape), -values, values).astype(values.dtype)


def _numpy_name(dtype: str) -> Any:
    if dtype in {"float16", "float32", "float64"} or dtype.startswith(("int", "uint")):
        return dtype
    import ml_dtypes

    return getattr(ml_dtypes, dtype)


def is_finite(values: np.ndarray[Any, Any]) -> bool:
    """Whether there is no NaN and no infinity among some values."""
    return values.dtype.kind in "iub" or bool(np.isfinite(values.astype(np.float32)).all())


def find_difference(
    expected: Sequence[np.ndarray[Any, Any]],
    found: Sequence[np.ndarray[Any, Any]],
    *,
    rounded: bool = False,
) -> str | None:
    """What is wrong with `found`; None where it is `expected`, but for rounding.

    With `rounded`, whole numbers and truth values may have been made of floats that were rounded
    otherwise: a few of them may be the neighbour.
    """
    among_floats = any(each.dtype.kind not in "iub" for each in expected)
    for i, (one, other) in enumerate(zip(expected, found, strict=True)):
        if one.dtype.kind in "iub":
            reason = _whole_difference(one, other, rounded=rounded and among_floats)
        else:
            reason = _float_difference(one, other)
        if reason:
            return f"tensor {i} {reason}"
    return None


def _whole_difference(
    one: np.ndarray[Any, Any], other: np.ndarray[Any, Any], *, rounded: bool
) -> str:
    different = np.count_nonzero(one != other)
    if not different:
        return ""
    if rounded and different <= max(1, one.size * _NEIGHBOURS):
        apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
        if apart.max() <= 1:
            return ""
    return f"differs in {different} values"


def _float_difference(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> str:
    # float32 knows all float16 and bfloat16, and numpy's functions know float32.
    a, b = (x if x.dtype.itemsize > 4 else x.astype(np.float32) for x in (one, other))
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return "has values that are not finite"
    largest = float(np.max(np.abs(a), initial=0.0, where=np.isfinite(a)))
    off = np.max(np.abs(a - b), initial=0.0, where=np.isfinite(a))
    if off > _TOLERANCE[min(one.dtype.itemsize, 4)] * largest:
        return f"is off by {off:.3g}, its largest value is {largest:.3g}"
    return ""
