"""Weights that two executables have in common, once in memory.

A step and a prefill of one decoder have the same weights; where both want them in the same layout,
they are equal arrays under two names. Equal arrays (of one type and shape, byte for byte) become
one tensor, which both executors use where it is. Weights that the two want in different layouts
stay two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tvm

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.executor.native import load_library
from tvm_hetero.executor.tensors import as_array, lasting

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


def share_weights(executables: Sequence[Executable]) -> SharedWeights:
    """Put the weights of executables into main memory, equal ones once."""
    load_library()  # which allocates
    found: dict[tuple[str, tuple[int, ...], bytes], Any] = {}
    total = saved = 0
    shared = []
    for executable in executables:
        weights = {}
        for name, value in executable.weights.items():
            array = as_array(value)
            key = (str(array.dtype), array.shape, _digest(array))
            if key in found:
                saved += array.nbytes
            else:
                found[key] = lasting(array, tvm.cpu())
                total += array.nbytes
            weights[name] = found[key]
        shared.append(replace(executable, weights=weights))
    return SharedWeights(tuple(shared), total, saved)


def _digest(array: np.ndarray[Any, Any]) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data).digest()
