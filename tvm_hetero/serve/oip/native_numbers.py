"""Numbers from JSON without a list of them: read in C++ to where they belong (`src/support`).

It knows what is right, not what is wrong: a text that is not just what its array's shape and type
say is left to `serve.oip.numbers`, which says what is the matter.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Generator
from typing import Any

import numpy as np

from tvm_hetero.executor.native import load_library

_PIECE = 768 << 10  # bytes that are read in about half a millisecond
_KINDS = "fiu"


class JsonArray(ctypes.Structure):
    """TvmHeteroJsonArray."""

    _fields_ = (
        ("text", ctypes.c_void_p),
        ("size", ctypes.c_int64),
        ("numbers", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("rows", ctypes.POINTER(ctypes.c_int64)),
        ("inner", ctypes.c_int32),
        ("kind", ctypes.c_char),
        ("bytes", ctypes.c_int32),
    )


@functools.cache
def _reader() -> Any:
    read = load_library().tvm_hetero_read_json_numbers
    number = ctypes.c_int64
    read.argtypes = [ctypes.POINTER(JsonArray), number, number, ctypes.POINTER(number)]
    read.restype = number
    return read


def fill_from_json(
    text: bytes | bytearray | memoryview, array: np.ndarray[Any, Any], *, is_nested: bool
) -> Generator[None, None, bool]:
    """Fill an array with a text's numbers, a piece at a time; False if the text is another.

    Parameters
    ----------
    text : from its first bracket to its last.
    is_nested : whether the text has the brackets of the array's shape, or one pair.
    """
    if array.dtype.kind not in _KINDS or not array.size or not array.flags.c_contiguous:
        return False
    read, given = _reader(), np.frombuffer(text, np.uint8)
    rows = np.cumprod(array.shape[:0:-1], dtype=np.int64) if is_nested else np.empty(0, np.int64)
    job = JsonArray(
        given.ctypes.data, given.size, array.ctypes.data, array.size,
        rows.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), len(rows),
        array.dtype.kind.encode(), array.itemsize,
    )  # fmt: skip
    at = ctypes.c_int64(0)
    done: int = read(job, 0, _PIECE, at)
    while done >= 0 and at.value < given.size:
        yield
        done = read(job, done, _PIECE, at)
    return done == array.size
