"""Which tensors of a kernel are looked up: read at places that other data tell.

Of a table of embeddings a token reads one row. To count all of it as read, as is right for the
weights of a product, would make such a kernel the fastest reader there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm.ir.expr import TensorLoad

if TYPE_CHECKING:
    from tvm import tirx


def find_gathered(func: tirx.PrimFunc) -> frozenset[int]:
    """The parameters, by position, that are read at places told by other data, and only there."""
    told: dict[int, list[bool]] = {}

    def load(node: TensorLoad) -> None:
        for i, parameter in enumerate(func.params):
            if node.source.same_as(parameter):
                told.setdefault(i, []).append(any(_reads(index) for index in node.indices))

    tvm_ffi.structural_walk(func.body, (TensorLoad, load))
    return frozenset(i for i, places in told.items() if all(places))


def _reads(index: Any) -> bool:
    found: list[TensorLoad] = []
    tvm_ffi.structural_walk(index, (TensorLoad, found.append))
    return bool(found)
