"""Array types, named by what one element is: the only ones that views, bounds and solvers use.

========================  =====================================================================
name                      one element
========================  =====================================================================
`FloatArray`              float64: seconds, bytes in sums, shares, prices (inf: not possible)
`IntArray`                int64: positions, numbers of rows, codes, bytes
`Int32Array`              int32: what the C++ search takes for positions
`Int16Array`              int16: devices in tables of all placements, which may be large
`BoolArray`               bool: masks, and members of sets
`UInt64Array`             uint64: sets as 64 flags in a word
`AnyArray`                columns of several of these in one collection
========================  =====================================================================

Shapes are not part of the types; docstrings give them, e.g. "(tasks, devices), s".
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Int32Array = NDArray[np.int32]
Int16Array = NDArray[np.int16]
BoolArray = NDArray[np.bool_]
UInt64Array = NDArray[np.uint64]
AnyArray = NDArray[Any]
