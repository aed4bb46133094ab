"""A kernel in bfloat16: the same sums, with pairs of narrow numbers as words.

Convolutions and products with constant weights are one sum of products (`convolution.conv2d`,
`matmul.product`). `narrow_kernel` takes such a kernel of float32 that is not scheduled and makes

    acc[p, c] += data[p, k] * weight[k, c]                                 over k < K
    acc[p, c] += word[p, q] . weight[q, c]                                 over q < ceil(K / 2)

of it, where a word has the numbers of k = 2 q and 2 q + 1 and ``.`` is the sum of their two
products (`cpu.bfloat16_words`). Sums are of float32 as before, and so is all that comes in and goes
out: data are rounded when they are copied in front of the sum (`narrow_stages`), and weights once,
when the model is compiled (`NarrowKernel.pack_weights`). Since words are numbers of 32 bits, half
as many, all schedules of the kernel of float32 apply (`packed`, `gemm`), with their tiles. Windows
of 3x3 are summed up as they are written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import s_tir, tirx
from tvm.ir.expr import TensorLoad
from tvm.sym import Analyzer

from tvm_hetero.kernels.convolution.winograd.match import WINDOW_3X3
from tvm_hetero.kernels.cpu.bfloat16_dot_ops import multiplies_pairs
from tvm_hetero.kernels.cpu.bfloat16_words import pack_bfloat16_words, plain_dot
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.narrow_stages import (
    WORD,
    WordStages,
    axis_of,
    half,
    halved_shape,
    point_region,
    with_block,
)
from tvm_hetero.kernels.tir.batched import statements_of
from tvm_hetero.kernels.tir.block_roles import (
    ACCUMULATE,
    BFLOAT16_DOT,
    BYTES_ATTR,
    BYTES_DOT,
    GATHER,
    GROUP_ATTR,
    PRODUCT,
    role,
)
from tvm_hetero.kernels.tir.blocks import uses
from tvm_hetero.kernels.tir.index_values import FLOPS
from tvm_hetero.kernels.tir.nests import INDEX, Nest, nest_of
from tvm_hetero.kernels.tir.statements import load, store, tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tvm.target import Target

    Expr = Any

# Which dimension of packed weights the steps are that become pairs: of a convolution its channels.
_AXIS = {ACCUMULATE: 1, PRODUCT: 2}
# Of constants: those that are bfloat16 exactly may be stored so (`matmul.dense.narrow`).
_KNOWN = ("float32", "bfloat16")
_OTHERS = (BYTES_ATTR, BYTES_DOT, BFLOAT16_DOT, GROUP_ATTR)


@dataclass(frozen=True)
class NarrowKernel:
    """A kernel in bfloat16.

    Attributes
    ----------
    func : not scheduled; its parameters are those of the kernel of float32, but for the weights.
    weights : which parameter these are.
    axis : along which of their dimensions two numbers are a word.
    """

    func: tirx.PrimFunc
    weights: int
    axis: int

    def pack_weights(self, weights: NDArray[Any]) -> NDArray[Any]:
        """The weights (packed as the kernel of float32 has them) as words of int32."""
        return pack_bfloat16_words(weights, self.axis)


@dataclass(frozen=True)
class _Sum:
    """What a kernel sums up: in which of its nests, of what, over which steps."""

    nest: Nest
    data: TensorLoad
    weights: TensorLoad
    step: tirx.Var
    axis: int

    @property
    def count(self) -> int:
        """How many steps there are."""
        steps = (v for v in self.nest.block.iter_vars if v.var.same_as(self.step))
        return int(next(steps).dom.extent)


def computes_bfloat16(target: Target) -> bool:
    """Whether a target has an instruction that multiplies pairs of bfloat16."""
    return str(target.kind.name) == "llvm" and multiplies_pairs(vector_unit(target))


def narrow_kernel(func: tirx.PrimFunc, flops: float) -> NarrowKernel:
    """A kernel of float32 in bfloat16.

    Parameters
    ----------
    func
        A kernel that is not scheduled, of a module that `LowerToTasks` made.
    flops
        Arithmetic operations of a call, which the narrow kernel says of itself.

    Raises
    ------
    ValueError
        If it is no convolution or product of float32 with constant weights whose steps can be
        taken two by two.
    """
    nests = [nest_of(statement) for statement in statements_of(func.body.block.body)]
    at = [i for i, nest in enumerate(nests) if nest.role in _AXIS]
    if len(at) != 1 or any(n in nests[at[0]].block.annotations for n in _OTHERS):
        raise ValueError("the kernel has no sum of products of float32")
    found = _sum_of(nests[at[0]], func)
    stages = WordStages(nests[: at[0]], role(GATHER) if found.axis == _AXIS[ACCUMULATE] else {})
    shape = halved_shape(found.weights.source, found.axis)
    packed = tensor(found.weights.source.name, shape, WORD)
    narrow = _narrow_sum(found, stages, packed)
    body = _body(func, stages, narrow, at[0])
    position = next(i for i, p in enumerate(func.params) if p.same_as(found.weights.source))
    params = [*func.params[:position], packed, *func.params[position + 1 :]]
    attrs = {**dict(func.attrs or {}), FLOPS: float(flops)}
    return NarrowKernel(tirx.PrimFunc(params, body).with_attrs(attrs), position, found.axis)


def _sum_of(nest: Nest, func: tirx.PrimFunc) -> _Sum:
    """What a nest sums up, if that can be done in pairs."""
    block, axis = nest.block, _AXIS[str(nest.role)]
    value = getattr(block.body, "value", None)
    if not (isinstance(value, tirx.Add) and isinstance(value.b, tirx.Mul)):
        raise ValueError(f"the block {block.name_hint} is no plain sum of products")
    data, weights = value.b.a, _uncast(value.b.b)
    loads = isinstance(data, TensorLoad) and isinstance(weights, TensorLoad)
    if not loads or str(data.source.dtype) != "float32" or str(weights.source.dtype) not in _KNOWN:
        raise ValueError(f"the block {block.name_hint} multiplies no values of float32")
    if not any(weights.source.same_as(p) for p in func.params):
        raise ValueError("the weights are no parameter of the kernel")
    step = weights.indices[axis]
    steps = [v.var for v in block.iter_vars if v.iter_type == tirx.IterVar.CommReduce]
    if not any(v.same_as(step) for v in steps):
        raise ValueError("the sum has a single step")
    return _Sum(nest, data, weights, step, axis)


def _uncast(value: Expr) -> Expr:
    """What is read of constants that are bfloat16 and are widened to float32."""
    return value.value if isinstance(value, tirx.Cast) else value


def _narrow_sum(found: _Sum, stages: WordStages, packed: tirx.Var) -> tirx.Stmt:
    """The nest that sums up words."""
    block = found.nest.block
    along = axis_of(found.data, found.step)
    index = list(found.data.indices)
    index[along] = _halved(index[along], found)
    left = load(stages.words_of(found.data.source, along), *index)
    right = load(packed, *found.weights.indices)
    value = block.body.value.a + plain_dot(left, right)
    annotations = {k: v for k, v in block.annotations.items() if k != WINDOW_3X3}
    return with_block(
        found.nest, found.step, half(found.count),
        store(block.body.buffer, block.body.indices, value),
        [point_region(left), point_region(right)], block.writes, {**annotations, BFLOAT16_DOT: 1},
    )  # fmt: skip


def _halved(index: Expr, found: _Sum) -> Expr:
    """Where the words of an index stand: of offset + step that is offset / 2 + pair."""
    if index.same_as(found.step):
        return index
    analyzer = Analyzer()
    for v in found.nest.block.iter_vars:
        analyzer.bind(v.var, v.dom)
    offset = analyzer.simplify(index - found.step)
    two = tirx.const(2, INDEX)
    even = analyzer.can_prove_equal(tirx.floormod(offset, two), 0) and found.count % 2 == 0
    if uses(offset, found.step) or not even:
        raise ValueError("pairs of steps do not stand side by side in each group")
    return analyzer.simplify(tirx.floordiv(offset, two)) + found.step


def _body(func: tirx.PrimFunc, stages: WordStages, narrow: tirx.Stmt, at: int) -> tirx.Stmt:
    """The kernel's new body: its stages, the sum, and what follows as it was."""
    root = func.body.block
    old = list(statements_of(root.body))
    before = [stages.made.get(i, statement) for i, statement in enumerate(old[:at])]
    added, tensors = [s for s, _ in stages.added], [t for _, t in stages.added]
    buffers = [stages.changed.get(b, b) for b in root.alloc_buffers] + tensors
    made = s_tir.SBlock(
        [], [], [], "root", tirx.SeqStmt([*before, *added, narrow, *old[at + 1 :]]),
        alloc_buffers=buffers, annotations=dict(root.annotations),
    )  # fmt: skip
    return s_tir.SBlockRealize([], tirx.const(True, "bool"), made)
