"""What a convolution's kernel does with its sums: what was fused behind, and where it is stored.

Kernels that are written out (`winograd`, `amx_conv2d`) have sums in vectors of pixels side by side,
and make results of them one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.tir.blocks import uses
from tvm_hetero.kernels.tir.statements import extents_of

if TYPE_CHECKING:
    Expr = Any


@dataclass(frozen=True)
class ImageResults:
    """The results of a convolution, images.

    Attributes
    ----------
    results : of the convolution and of the whole kernel, ``[images, channels, height, width]``.
    last : the block that computes the kernel's results from those of the convolution.
    sums : the tensor of which that block reads the convolution's results.
    """

    results: tuple[int, int, int, int]
    last: s_tir.SBlock
    sums: tirx.Var

    @property
    def images(self) -> int:
        """How many images there are."""
        return self.results[0]

    def result(self, image: Expr, channel: Expr, pixel: Expr, sums: Expr) -> tirx.Stmt:
        """Computes what is fused behind for one pixel (row times width plus column), or a vector
        of them, and stores it.
        """
        batch, out, row, column = (v.var for v in self.last.iter_vars)
        values = {batch: image, out: channel}

        def variable(var: tirx.Var) -> Expr:
            return values.get(var, var)

        def joined(indices: list[Expr]) -> list[Expr]:
            """Indices whose last two are row and column, as one of the image's pixels."""
            if len(indices) >= 2 and indices[-2].same_as(row) and indices[-1].same_as(column):
                return [*indices[:-2], tirx.const(0, str(row.ty.dtype)), pixel]
            return indices

        def load(node: TensorLoad) -> Expr:
            if node.source.same_as(self.sums):
                return sums
            return tirx.BufferLoad(node.source, joined(list(node.indices)))

        stored = self.last.body
        rules = [(TensorLoad, load)]
        value = tvm_ffi.structural_map(stored.value, rules)
        value = tvm_ffi.structural_map(value, [(tirx.Var, variable)])
        places = [
            tvm_ffi.structural_map(i, [(tirx.Var, variable)]) for i in joined(list(stored.indices))
        ]
        return tirx.BufferStore(stored.buffer, value, places)

    def check(self, sums: Expr) -> None:
        """Check that what follows reads and writes nothing by rows and columns but whole images.

        Parameters
        ----------
        sums
            A value of the type of the sums.

        Raises
        ------
        ValueError
            If it does.
        """
        if not isinstance(self.last.body, tirx.BufferStore):
            raise ValueError("what follows the convolution is expected to be one value each")
        if str(self.last.body.buffer.dtype) == "bfloat16":
            raise ValueError("what is rounded at the end is rounded number by number")
        row, column = (v.var for v in self.last.iter_vars[2:])
        zero = tirx.const(0, str(row.ty.dtype))
        done = self.result(zero, zero, zero, sums)
        if any(uses(done, var) for var in (row, column)):
            raise ValueError("what follows the convolution reads other tensors than whole images")
        images: list[list[int]] = [extents_of(self.last.body.buffer)[-2:]]

        def load(node: TensorLoad) -> None:
            own = node.source.same_as(self.sums)
            if not own and any(i.same_as(column) for i in node.indices):
                images.append(extents_of(node.source)[-2:])

        tvm_ffi.structural_walk(self.last.body, (TensorLoad, load))
        if any(extents != list(self.results[2:]) for extents in images):
            raise ValueError("what follows the convolution reads or writes parts of other tensors")
