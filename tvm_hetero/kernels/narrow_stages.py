"""What comes before a sum in bfloat16: stages that make words of the data.

A sum reads its data from a parameter, or from a chain of stages that copy them
(`convolution.conv2d` pads and gathers, `matmul.product` packs). `WordStages.words_of` gives the
tensor of words that takes the place of such a tensor: made by the first stage of its chain, and
only copied by the others; or, where the tensor is read as it stands, by a stage of its own.

Along one dimension, that of the steps of the sum, numbers 2 q and 2 q + 1 become word q.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import tvm_ffi
from tvm import s_tir, tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad

from tvm_hetero.kernels.cpu.bfloat16_dot_ops import pair
from tvm_hetero.kernels.tir.block_roles import GATHER, LEFT, PAD
from tvm_hetero.kernels.tir.blocks import uses
from tvm_hetero.kernels.tir.nests import INDEX, Nest, iterators, nest_over, range_of, wrap_in_loops
from tvm_hetero.kernels.tir.statements import load, store, tensor

if TYPE_CHECKING:
    Expr = Any

WORD = "int32"
_STAGES = (PAD, GATHER, LEFT)


@dataclass
class WordStages:
    """Stages of a kernel on their way to words.

    Attributes
    ----------
    nests : of the kernel, up to the sum.
    own : the attributes of a stage that is added.
    changed : tensors that others have taken the place of.
    made : stages that others have taken the place of, by their positions.
    added : a stage that stands behind the others, and its tensor.
    """

    nests: Sequence[Nest]
    own: Mapping[str, Any]
    changed: dict[tirx.Var, tirx.Var] = field(default_factory=dict)
    made: dict[int, tirx.Stmt] = field(default_factory=dict)
    added: list[tuple[tirx.Stmt, tirx.Var]] = field(default_factory=list)

    def words_of(self, source: tirx.Var, axis: int) -> tirx.Var:
        """The words of a tensor, pairs along an axis.

        Raises
        ------
        ValueError
            If a stage does more than copy, with zeros around.
        """
        at = self._maker(source)
        return self._own_stage(source, axis) if at is None else self._stage(source, axis, at)

    def _maker(self, source: tirx.Var) -> int | None:
        """Which stage makes a tensor."""
        made = (
            i
            for i, nest in enumerate(self.nests)
            if nest.role in _STAGES and nest.block.writes[0].source.same_as(source)
        )
        return next(made, None)

    def _stage(self, source: tirx.Var, axis: int, at: int) -> tirx.Var:
        nest, place = self.nests[at], list(self.nests[at].block.body.indices)
        extent = int(source.shape[axis])
        words = tensor(source.name, halved_shape(source, axis), WORD, source.ty.storage_scope)
        value, reads = self._narrow(nest.block.body.value, place[axis], extent)
        self.changed[source] = words
        self.made[at] = with_block(
            nest, place[axis], half(extent), store(words, place, value), reads,
            [point_region(load(words, *place))], nest.block.annotations,
        )  # fmt: skip
        return words

    def _own_stage(self, source: tirx.Var, axis: int) -> tirx.Var:
        """Words of a tensor that is read as it stands."""
        shape = halved_shape(source, axis)
        words = tensor("words", shape, WORD)

        def block(v: list[tirx.Var]) -> s_tir.SBlock:
            value, region = _paired(load(source, *v), v[axis], int(source.shape[axis]))
            made = store(words, v, value)
            written = [point_region(load(words, *v))]
            return s_tir.SBlock(
                iterators(v, shape), region, written, "words", made, annotations=dict(self.own)
            )

        names = [f"w{i}" for i in range(len(shape))]
        self.added.append((nest_over(names, shape, block), words))
        return words

    def _narrow(self, value: Expr, variable: tirx.Var, extent: int) -> tuple[Expr, list[Any]]:
        """What a stage copies, as words, and what it reads then."""
        if isinstance(value, TensorLoad):
            return self._narrow_load(value, variable, extent)
        parts = _padded(value)
        if parts is None or uses(parts[0], variable):
            raise ValueError("a stage before the sum is no copy with zeros around")
        inner, reads = self._narrow(parts[1], variable, extent)
        return tirx.if_then_else(parts[0], inner, tirx.const(0, WORD)), reads

    def _narrow_load(
        self, value: TensorLoad, variable: tirx.Var, extent: int
    ) -> tuple[Expr, list[Any]]:
        axis = axis_of(value, variable)
        if self._maker(value.source) is None:
            return _paired(value, variable, extent)
        if not value.indices[axis].same_as(variable):
            raise ValueError("a stage before the sum reads another one's steps out of turn")
        words = load(self.words_of(value.source, axis), *value.indices)
        return words, [point_region(words)]


def _paired(value: TensorLoad, variable: tirx.Var, extent: int) -> tuple[Expr, list[Any]]:
    """The word of what a load reads for twice the variable and for the next one, and the region.

    Where the number of values is odd, the last one is alone.
    """
    first = variable * tirx.const(2, INDEX)
    second = first + tirx.const(1, INDEX)
    low, high = (_replaced(value, variable, place) for place in (first, second))
    axis = axis_of(value, variable)
    region = [range_of(i, 1) for i in low.indices]
    region[axis] = range_of(low.indices[axis], 2)
    if extent % 2:
        region[axis] = range_of(0, int(value.source.shape[axis]))
        high = tirx.if_then_else(second < extent, high, tirx.const(0.0, "float32"))
    return pair(low, high), [tirx.BufferRegion(value.source, region)]


def _padded(value: Expr) -> tuple[Expr, Expr] | None:
    """Condition and value of what is zero elsewhere."""
    if not (isinstance(value, Call) and value.op.name == "prim.if_then_else"):
        return None
    condition, inner, other = value.args
    zero = isinstance(other, tirx.FloatImm) and float(other.value) == 0.0
    return (condition, inner) if zero else None


def _replaced(value: Expr, variable: tirx.Var, place: Expr) -> Any:
    return tvm_ffi.structural_map(value, (tirx.Var, lambda v: place if v.same_as(variable) else v))


def axis_of(read: TensorLoad, variable: tirx.Var) -> int:
    """The one dimension in which a load depends on a variable.

    Raises
    ------
    ValueError
        If there are several, or none.
    """
    found = [i for i, index in enumerate(read.indices) if uses(index, variable)]
    if len(found) != 1:
        raise ValueError(f"{read.source.name} is not read along one dimension")
    return found[0]


def with_block(
    nest: Nest,
    variable: tirx.Var,
    count: int,
    body: tirx.Stmt,
    reads: Sequence[Any],
    writes: Sequence[Any],
    annotations: Mapping[str, Any],
) -> tirx.Stmt:
    """A nest with another body, one of whose variables has another extent."""
    block = nest.block
    at = next(i for i, v in enumerate(block.iter_vars) if v.var.same_as(variable))
    axes = list(block.iter_vars)
    axes[at] = tirx.IterVar(range_of(0, count), variable, axes[at].iter_type)
    made = s_tir.SBlock(
        axes, list(reads), list(writes), block.name_hint, body,
        init=block.init, annotations=dict(annotations),
    )  # fmt: skip
    return wrap_in_loops(nest.loops, nest.values, made, nest.values[at], count)


def half(count: int) -> int:
    """How many words so many numbers are."""
    return -(-count // 2)


def halved_shape(source: tirx.Var, axis: int) -> list[int]:
    """The shape of the words of a tensor."""
    shape = [int(e) for e in source.shape]
    shape[axis] = half(shape[axis])
    return shape


def point_region(read: TensorLoad) -> Any:
    """The region of one value that is read."""
    return tirx.BufferRegion(read.source, [range_of(i, 1) for i in read.indices])
