"""Weights that two executables have in common, once in memory.

A step and a prefill of one decoder have the same weights, and so have the sizes of one model; where
both want them in the same layout, they are equal arrays under two names. Equal arrays (of one type
and shape, byte for byte) become one tensor, which both executors use where it is. Weights that the
two want in different layouts stay two.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.executor.native import load_library
from tvm_hetero.executor.tensors import as_array, copy_lasting

Weights = Mapping[str, Any]


@dataclass(frozen=True)
class SharedWeights:
    """Executables whose equal weights are the same tensors.

    Attributes
    ----------
    executables : in the order in which they were given.
    bytes : of all weights, each counted once.
    saved : bytes that are not there twice.
    """

    executables: tuple[Executable, ...]
    bytes: int
    saved: int


class WeightPool:
    """Weights in main memory, equal ones once; executables come one by one, from any thread.

    Attributes
    ----------
    bytes : of all weights, each counted once.
    saved : bytes that are not there twice.
    """

    def __init__(self) -> None:
        load_library()  # which allocates
        self.bytes = self.saved = 0
        self._found: dict[tuple[str, tuple[int, ...], bytes], Any] = {}
        self._lock = threading.Lock()

    def share(self, executable: Executable) -> Executable:
        """The executable with the weights of this pool, to which new ones are added."""
        with self._lock:
            weights = {name: self._one(value) for name, value in executable.weights.items()}
        return replace(executable, weights=weights)

    def _one(self, value: Any) -> Any:
        array = as_array(value)
        key = (str(array.dtype), array.shape, _digest(array))
        if key in self._found:
            self.saved += array.nbytes
        else:
            self._found[key] = copy_lasting(array, tvm.cpu())
            self.bytes += array.nbytes
        return self._found[key]


def share_weights(executables: Sequence[Executable]) -> SharedWeights:
    """Put the weights of executables into main memory, equal ones once."""
    pool = WeightPool()
    shared = tuple(pool.share(executable) for executable in executables)
    return SharedWeights(shared, pool.bytes, pool.saved)


def _digest(array: np.ndarray[Any, Any]) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).digest()
