"""The C++ half of `stage_dp.device_sets`: sets of ways to use devices, joined along stages.

Python's own long integers do the same, at a third of the speed (`stage_dp.device_sets` falls back
on them where the library is missing).
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np

from tvm_hetero.errors import SolverError
from tvm_hetero.solvers.native.search_library import search_library
from tvm_hetero.views.array_types import UInt64Array

_FOREVER = 86_400.0


class _StagesStruct(ctypes.Structure):
    """TvmHeteroStages."""

    _fields_ = (
        ("ideals", ctypes.c_int32),
        ("kinds", ctypes.c_int32),
        ("words", ctypes.c_int32),
        ("free", ctypes.c_void_p),
        ("stride", ctypes.c_void_p),
        ("begin", ctypes.c_void_p),
        ("kind", ctypes.c_void_p),
        ("later", ctypes.c_void_p),
        ("load", ctypes.c_void_p),
        ("beyond", ctypes.c_void_p),
    )


@cache
def _function() -> Any:
    """The library's function; None if it is missing."""
    try:
        function = search_library().tvm_hetero_search_stage_reach
    except (SolverError, AttributeError):
        return None
    pointer, real = ctypes.c_void_p, ctypes.c_double
    function.argtypes = [ctypes.POINTER(_StagesStruct), real, real, pointer, pointer]
    function.restype = ctypes.c_int
    return function


def available() -> bool:
    """Whether the library is there and has the function."""
    return _function() is not None


class NativeStages:
    """Stages between ideals, ready for the library (see include/tvm_hetero/stage_reach.h).

    Parameters
    ----------
    free : (kinds, words).
    stride : (kinds,).
    begin, kind, later, load, beyond : stages by the ideal they follow, then by kind.
    """

    def __init__(
        self,
        free: UInt64Array,
        stride: Any,
        begin: Any,
        kind: Any,
        later: Any,
        load: Any,
        beyond: Any,
    ) -> None:
        self._sets = (len(begin) - 1, free.shape[1])
        self._arrays = (
            np.ascontiguousarray(free, dtype=np.uint64),
            np.ascontiguousarray(stride, dtype=np.int32),
            np.ascontiguousarray(begin, dtype=np.int64),
            np.ascontiguousarray(kind, dtype=np.int32),
            np.ascontiguousarray(later, dtype=np.int32),
            np.ascontiguousarray(load, dtype=np.float64),
            np.ascontiguousarray(beyond, dtype=np.float64),
        )
        pointers = [array.ctypes.data for array in self._arrays]
        self._stages = _StagesStruct(len(begin) - 1, len(free), free.shape[1], *pointers)

    def reach(self, most: float, seconds: float) -> UInt64Array:
        """(ideals, words): the ways that reach each ideal in stages of at most `most` s.

        Raises
        ------
        SolverError
            If the time is up.
        """
        found = np.zeros(self._sets, dtype=np.uint64)
        found[0, 0] = 1
        late = ctypes.c_int32()
        code = _function()(
            ctypes.byref(self._stages),
            most,
            min(_FOREVER, seconds),
            found.ctypes.data,
            ctypes.byref(late),
        )
        if code != 0:
            raise SolverError(f"the search library's stage_reach failed with code {code}")
        if late.value:
            raise SolverError("stages: no time is left to join stages")
        return found
