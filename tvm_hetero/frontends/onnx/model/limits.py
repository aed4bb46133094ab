"""How much of a machine a model file may claim before it is refused."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tvm_hetero.util.units import parse_bytes

MADE_BYTES = "TVM_HETERO_MADE_BYTES"
"""The environment variable by which every verb takes another `OnnxLimits.made_bytes`."""

_MADE_BYTES = 640 * 2**20


@dataclass(frozen=True)
class OnnxLimits:
    """Caps that are checked before anything of that size is allocated.

    Attributes
    ----------
    file_bytes : int
        Size of the ``.onnx`` file itself.  The default is protobuf's own limit; larger
        models keep their weights in external data.
    weight_bytes : int
        Sum over all constants: initializers, ``Constant`` and ``ConstantOfShape`` nodes,
        external data.
    made_bytes : int, optional
        Sum over all constants that folding and rewriting make, besides eight times what the
        file brings; constants that are made and dropped count too.  None: what the environment
        variable ``TVM_HETERO_MADE_BYTES`` says when a model is read, else 640 MiB.
    nodes : int
        Number of nodes.
    rank : int
        Number of dimensions of any tensor.  The default is what NumPy can hold.
    """

    file_bytes: int = 2**31 - 1
    weight_bytes: int = 16 * 2**30
    made_bytes: int | None = None
    nodes: int = 100_000
    rank: int = 64

    @property
    def most_made(self) -> int:
        """`made_bytes`, as it is now.

        Raises
        ------
        FormatError
            The environment says no number of bytes.
        """
        if self.made_bytes is not None:
            return self.made_bytes
        return parse_bytes(os.environ.get(MADE_BYTES, _MADE_BYTES), MADE_BYTES)


MAX_ELEMENTS = 2**63 - 1
"""Elements that any tensor may have: the product of its dimensions fits an int64."""

DEFAULT_LIMITS = OnnxLimits()
