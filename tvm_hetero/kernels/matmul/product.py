"""Matrix products as kernels: what is computed, before any schedule.

Every product is one batched nest with packed columns,

    acc[b, n // B, m, n % B] += left[b, m, k] * right[b, n // B, k, n % B]

over matrices ``b``, rows ``m``, columns ``n`` and the reduction ``k``. Leading dimensions
broadcast as in numpy; where the right side has none, those of the left are joined into the rows.
Stages, each a block whose role says what it is (`gemm` schedules them):

    left       rows as [b, k, m], so that the rows of a tall tile share cache lines (`tiles`
               says when; otherwise the left side is read as it stands)
    right      columns as [b, n // B, k, n % B]; constants come packed already, and where every
               value of the right side is used once only it is read as it stands
    product    the accumulation; rows are padded to whole tiles by reading the last row again
    unpack     back to the shape of the result

Values narrower than 32 bits are widened as they are read: sums are of float32 or int32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tvm import te, tirx

from tvm_hetero.kernels.tir.block_roles import LEFT, MATRICES, PRODUCT, RIGHT, UNPACK, role

# (matrix, row or step, step or column) -> value
Reader = Callable[[Any, Any, Any], Any]
# (value on the left, matrix, block, step, column in the block) -> summand
Term = Callable[[Any, Any, Any, Any, Any], Any]


@dataclass(frozen=True)
class Side:
    """How an operand stands in memory.

    Attributes
    ----------
    shape
        Extents as the product sees them, at least two.
    axes
        Where each of these dimensions stands in the tensor that the kernel reads.
    """

    shape: tuple[int, ...]
    axes: tuple[int, ...]

    def read(self, tensor: te.Tensor, index: Sequence[Any]) -> Any:
        """The value at ``index`` of the product's dimensions; broadcast dimensions are 0."""
        place: list[Any] = [None] * len(self.axes)
        for axis, i, extent in zip(self.axes, index, self.shape, strict=True):
            place[axis] = i if extent > 1 else 0
        return tensor(*place)


@dataclass(frozen=True)
class Product:
    """One product: both sides, the result, and how it is laid out.

    Attributes
    ----------
    left, right
        The sides, ``[..., M, K]`` and ``[..., K, N]``.
    dtype
        Of the result.
    block
        Columns side by side in the right side as it is packed.
    points
        Rows, padded to whole tiles.
    tall
        The left side becomes a stage.
    packed
        The right side becomes a stage (of no meaning where it is a constant).
    """

    left: Side
    right: Side
    dtype: str
    block: int
    points: int
    tall: bool = False
    packed: bool = True

    @property
    def leading(self) -> tuple[int, ...]:
        """Leading dimensions of the result."""
        return broadcast(self.left.shape[:-2], self.right.shape[:-2])

    @property
    def joined(self) -> bool:
        """The right side is one matrix, so that all leading dimensions are rows."""
        return math.prod(self.right.shape[:-2]) == 1

    @property
    def matrices(self) -> tuple[int, ...]:
        """Dimensions over which both sides vary."""
        return () if self.joined else self.leading

    @property
    def row_dims(self) -> tuple[int, ...]:
        """Dimensions of the result that are rows."""
        return (*self.leading, self.left.shape[-2]) if self.joined else (self.left.shape[-2],)

    @property
    def columns(self) -> int:
        """Columns of the result."""
        return self.right.shape[-1]

    @property
    def depth(self) -> int:
        """Length of the reduction."""
        return self.left.shape[-1]

    @property
    def blocks(self) -> int:
        """Blocks of columns, the last one padded."""
        return -(-self.columns // self.block)


def static_extents(ty: Any) -> tuple[int, ...]:
    """The extents of a tensor type, 0 for each that is not known, none where the rank is not."""
    return tuple(int(e) if isinstance(e, int | tirx.IntImm) else 0 for e in ty.shape or ())


def broadcast(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    """The extents that two lists of leading dimensions have together (valid by Relax's rules)."""
    pairs = zip_longest(reversed(left), reversed(right), fillvalue=1)
    return tuple(a if b == 1 else b for a, b in pairs)[::-1]


def accumulator(dtype: str) -> str:
    """In which type values of a type are summed up."""
    if dtype.startswith(("int", "uint")):
        return "int32" if dtype in ("int8", "uint8", "int16", "int32") else dtype
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def compute(left: te.Tensor, right: te.Tensor, product: Product, *, constant: bool) -> te.Tensor:
    """The product of two tensors; ``constant``: ``right`` is packed already, [b, o, k, i]."""
    acc_dtype = accumulator(product.dtype)
    b = _constant(right, product) if constant else _right(right, product)

    def term(value: Any, z: Any, o: Any, k: Any, i: Any) -> Any:
        return widen(value, acc_dtype) * widen(b(z, o, k, i), acc_dtype)

    return sum_products(left, term, product)


def sum_products(
    left: te.Tensor, term: Term, product: Product, attrs: Mapping[str, Any] | None = None
) -> te.Tensor:
    """The product whose summands are ``term(value on the left, z, o, k, i)``."""
    a = _left(left, product)
    k = te.reduce_axis((0, product.depth), "k")
    acc = te.compute(
        (max(1, math.prod(product.matrices)), product.blocks, product.points, product.block),
        lambda z, o, m, i: te.sum(term(a(z, m, k), z, o, k, i), axis=[k]),
        name="product",
        attrs={**role(PRODUCT), MATRICES: len(product.matrices), **(attrs or {})},
    )
    return _unpack(acc, product)


def widen(value: Any, dtype: str) -> Any:
    return value if str(value.ty.dtype) == dtype else value.astype(dtype)


def _left(tensor: te.Tensor, product: Product) -> Reader:
    rows = math.prod(product.row_dims)

    def read(z: Any, m: Any, k: Any) -> Any:
        inside = m if product.points == rows else tirx.min(m, rows - 1)
        index = [*split(z, product.matrices), *split(inside, product.row_dims), k]
        return product.left.read(tensor, index[-len(product.left.shape) :])

    if not product.tall:
        return read
    matrices = max(1, math.prod(product.matrices))
    stage = te.compute(
        (matrices, product.depth, product.points),
        lambda z, k, m: read(z, m, k),
        name="left",
        attrs=role(LEFT),
    )
    return lambda z, m, k: stage(z, k, m)


def _right(tensor: te.Tensor, product: Product) -> Callable[..., Any]:
    own, block = product.right.shape[:-2], product.block

    def column(z: Any, k: Any, n: Any) -> Any:
        index = [*split(z, product.matrices or (1,) * len(own)), k, n]
        return product.right.read(tensor, index[-len(product.right.shape) :])

    def read(z: Any, o: Any, k: Any, i: Any) -> Any:
        n = o * block + i
        if product.columns % block == 0:
            return column(z, k, n)
        # Whole blocks apart, so that they can be read with vectors.
        clamped = column(z, k, tirx.min(n, product.columns - 1))
        return tirx.if_then_else((o + 1) * block <= product.columns, column(z, k, n), clamped)

    if not product.packed:
        return read
    matrices = max(1, math.prod(product.matrices))
    stage = te.compute(
        (matrices, product.blocks, product.depth, product.block),
        read,
        name="right",
        attrs=role(RIGHT),
    )
    return lambda z, o, k, i: stage(z, o, k, i)


def _constant(packed: te.Tensor, product: Product) -> Callable[..., Any]:
    """Read access to packed constants [matrix, o, k, i], broadcast over the result's matrices."""
    own = product.right.shape[:-2]

    def read(z: Any, o: Any, k: Any, i: Any) -> Any:
        if product.joined:
            return packed(0, o, k, i)
        index = split(z, product.matrices)[-len(own) :]
        kept = [j if extent > 1 else 0 for j, extent in zip(index, own, strict=True)]
        return packed(join(kept, own), o, k, i)

    return read


def _unpack(acc: te.Tensor, product: Product) -> te.Tensor:
    matrices, block = product.matrices, product.block

    def value(*index: Any) -> Any:
        z = join(index[: len(matrices)], matrices)
        m = join(index[len(matrices) : -1], product.row_dims)
        total = acc(z, index[-1] // block, m, index[-1] % block)
        return widen(total, product.dtype)

    shape = (*matrices, *product.row_dims, product.columns)
    return te.compute(shape, value, name="unpack", attrs=role(UNPACK))


def join(index: Sequence[Any], extents: Sequence[int]) -> Any:
    """Several indices as one."""
    joined: Any = 0
    for i, extent in zip(index, extents, strict=True):
        joined = joined * extent + i
    return joined


def split(joined: Any, extents: Sequence[int]) -> list[Any]:
    index: list[Any] = []
    for extent in reversed(extents[1:]):
        index.insert(0, joined % extent)
        joined = joined // extent
    return [joined, *index] if extents else []
