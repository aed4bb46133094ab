"""How much a model makes of itself before it runs: counted before it is made.

A kilobyte of ``Concat(c, c)`` doubles a constant until it fills any memory, and so does one
``Expand``. So whatever is about to make an array whose size the file says pays for it first, each
time anew, also where the array replaces another one or is dropped later. What a file brings itself
is counted elsewhere (`tensors.check_sizes`), and so are weights that the user wants drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, MADE_BYTES, OnnxLimits
from tvm_hetero.frontends.onnx.model.tensors import byte_size
from tvm_hetero.util.untrusted_names import printable

# Weights of 4 bits that are widened to float32, or eight copies of whatever else.
_COPIES = 8


class MadeBytes:
    """What is left of the bytes that a model may make."""

    def __init__(self, tensors: Iterable[TensorProto], limits: OnnxLimits = DEFAULT_LIMITS) -> None:
        given = sum(byte_size(t.data_type, math.prod(t.dims), "a constant") for t in tensors)
        self.most = limits.most_made + _COPIES * given
        self._left = self.most

    def charge(self, size: int, what: str) -> None:
        """Pay for an array before it is made.

        Parameters
        ----------
        size : int
            Its bytes.
        what : str
            Who makes it, in words.

        Raises
        ------
        ModelError
            There are not so many left.
        """
        self.afford(size, what)
        self._left -= size

    def charge_tensor(self, tensor: TensorProto, what: str) -> None:
        """Pay for a copy of a tensor; see :meth:`charge`."""
        self.charge(byte_size(tensor.data_type, math.prod(tensor.dims), what), what)

    def bring(self, size: int) -> None:
        """Note that the user brings more than the file has (weights that are drawn)."""
        self.most += _COPIES * size
        self._left += _COPIES * size

    def afford(self, size: int, what: str) -> None:
        """Refuse what could not be paid for; as :meth:`charge`, but nothing is paid."""
        if size > self._left:
            raise ModelError(
                f"{what} would make {size} bytes of constants, of which {self._left} are left: a "
                f"file of this size may make {self.most}. If the model is what it should be, set "
                f"{MADE_BYTES} in the environment (4GiB, say), or give `from_onnx` a larger "
                "`limits=OnnxLimits(made_bytes=...)`."
            )


def pay_for_views(
    constants: Mapping[str, TensorProto | np.ndarray[Any, Any]], made: MadeBytes
) -> None:
    """Pay for constants that repeat one element, before each of them is written out.

    Raises
    ------
    ModelError
        They are too large.
    """
    for name, value in constants.items():
        if isinstance(value, np.ndarray) and not _is_stored(value):
            made.charge(value.nbytes, f"constant '{printable(name)}'")


def _is_stored(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array has memory for each element, and is no view that repeats one."""
    return all(stride or size <= 1 for stride, size in zip(array.strides, array.shape, strict=True))
