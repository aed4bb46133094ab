"""A product with weights of few bits (`quantized.product`), found in a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import tirx
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.quantized.factored import factors
from tvm_hetero.kernels.quantized.int16_operand import WORD, Numbers, numbers_of
from tvm_hetero.kernels.tir.batched import statements_of
from tvm_hetero.kernels.tir.block_roles import GROUP_ATTR, LEFT
from tvm_hetero.kernels.tir.left_side import make_left_reader
from tvm_hetero.kernels.tir.nests import Nest, nest_of

if TYPE_CHECKING:
    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

    Expr = Any
    Read = Callable[[Expr, Expr, Expr], TensorLoad]

# Of sums of products of 16 and 8 bits.
_MOST_OF_A_GROUP = 128


@dataclass(frozen=True)
class Groups:
    """Such a product.

    Attributes
    ----------
    nests, at
        Those of the kernel, and which one it is.
    numbers
        The left side in integers, with fresh buffers.
    codes, scales
        The weights: [block, word, column] and [block, group, column].
    blocks, block
        Of columns: how many, and how many columns each has.
    ahead
        Bytes ahead that codes are asked for; 0 for not at all.
    read
        Reads the left side's value of a matrix, a row and a step.
    annotations
        Of the nest's block, but for the group.
    """

    nests: Sequence[Nest]
    at: int
    numbers: Numbers
    codes: tirx.Var
    scales: tirx.Var
    blocks: int
    block: int
    ahead: int
    read: Read
    annotations: dict[str, Any]


def find_groups(func: tirx.PrimFunc, unit: VectorUnit) -> Groups:
    """The product of a kernel.

    Raises
    ------
    ValueError
        If there is none, or one whose sums may not fit in 32 bits.
    """
    nests = [nest_of(statement) for statement in statements_of(func.body.block.body)]
    at = [i for i, nest in enumerate(nests) if GROUP_ATTR in nest.block.annotations]
    if len(at) != 1:
        raise ValueError("another family's kernel")
    block, stages = nests[at[0]].block, [n for n in nests if n.role == LEFT]
    z, o, m, i, k = (int(v.dom.extent) for v in block.iter_vars)
    group = int(block.annotations[GROUP_ATTR])
    left, near, _, scale = factors(block)
    codes, scales = (_only(expr, dtype) for expr, dtype in ((near, "int32"), (scale, "bfloat16")))
    bits = WORD * int(codes.shape[1]) // k
    if group > _MOST_OF_A_GROUP or not isinstance(left, TensorLoad):
        raise ValueError("sums of a group may not fit, or the left side is no tensor")
    numbers = numbers_of(z, m, k // group, group, bits, unit.lanes)
    size = math.prod(int(e) for e in codes.shape) * WORD // 8
    ahead = unit.codes_ahead if size > unit.l2 // 2 else 0
    read = make_left_reader(block, left, stages)
    rest = {key: value for key, value in block.annotations.items() if key != GROUP_ATTR}
    return Groups(nests, at[0], numbers, codes, scales, o, i, ahead, read, rest)


def _only(expr: Expr, dtype: str) -> tirx.Var:
    """The one tensor of a type that an expression reads."""
    found: set[tirx.Var] = set()
    tvm_ffi.structural_walk(expr, (TensorLoad, lambda node: found.add(node.source)))
    (only,) = (tensor for tensor in found if str(tensor.dtype) == dtype)
    return only
