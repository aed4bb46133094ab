"""The kernels of a decoding step: what they read, and what they should compute.

A case is one kernel with its arguments. Those that a step reads from memory, weights or caches, are
named, so that there can be several sets of them: in a whole model they were last read one token
ago, with gigabytes of others since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax, tirx
from tvm.ir import GenericConst

from tvm_hetero.kernels.attention.kernel import attend
from tvm_hetero.kernels.quantized.product import groupwise_dense, quantize
from tvm_hetero.kernels.tir.array_values import array_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

Array = NDArray[Any]
WEIGHTS = ("float32", "bfloat16", "int8", "int4")
# (model, rows of the weights, columns)
_PRODUCTS = (
    ("gpt2", 768, 2304),
    ("gpt2", 3072, 768),
    ("gpt2", 768, 50257),
    ("llama 7b", 4096, 4096),
    ("llama 7b", 4096, 11008),
)
_ROWS = (1, 2, 4, 8)
# (model, heads, heads of keys, size, rows of the cache)
_CACHES = (
    ("gpt2", 12, 12, 64, 1024),
    ("gpt2", 12, 12, 64, 8192),
    ("llama 7b", 32, 32, 128, 2048),
    ("llama 8b", 32, 8, 128, 8192),
    ("llama 70b", 64, 8, 128, 4096),
)
_CHUNK = 64


@dataclass(frozen=True)
class Case:
    """One kernel.

    Attributes
    ----------
    kind, where, name
        What it is, of which model, and its sizes.
    dtype
        Of weights or caches.
    rows
        Tokens.
    func
        Not scheduled.
    arguments
        In their order; the last one is the result.
    streamed
        Which of them come from memory.
    expected
        The result with the float32 values of before they were rounded, in float64.
    flops
        Of one call.
    """

    kind: str
    where: str
    name: str
    dtype: str
    rows: int
    func: tirx.PrimFunc
    arguments: Sequence[Array]
    streamed: Sequence[int]
    expected: Array
    flops: float

    @property
    def bytes(self) -> float:
        """What it must read from memory."""
        return float(sum(self.arguments[i].nbytes for i in self.streamed))


def cases(target: tvm.target.Target, *, small: bool) -> Iterator[Case]:
    """All cases; ``small``: few, of a fraction of the size."""
    for model, depth, columns in [("tiny", 64, 256)] if small else _PRODUCTS:
        weight = _random(1, depth, columns) / np.float32(depth**0.5)
        for dtype in WEIGHTS:
            for rows in (1,) if small else _ROWS:
                yield _product(target, model, weight, dtype, rows)
    for model, *sizes in [("tiny", 4, 2, 16, 40)] if small else _CACHES:
        for dtype, rows in (("float32", 1), ("bfloat16", 1), ("float32", 8 if small else _CHUNK)):
            yield _attention(model, sizes, dtype, rows)


def _product(
    target: tvm.target.Target, model: str, weight: NDArray[np.float32], dtype: str, rows: int
) -> Case:
    """A product of some rows and a matrix of weights; beside bfloat16 the rows are rounded too."""
    depth, columns = weight.shape
    kind = "bfloat16" if dtype == "bfloat16" else "float32"
    x = relax.Var("x", relax.TensorType((rows, depth), kind))
    bb = relax.BlockBuilder()
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(_weighted(bb, x, weight, dtype))
        bb.emit_func_output(out)
    lowered = LowerToTasks([target])(bb.get())
    call = lowered["main"].body.blocks[0].bindings[0].value
    given = _random(0, rows, depth)
    constants = [array_of(a.value) for a in call.args[1].fields if isinstance(a, GenericConst)]
    return Case(
        "product", model, f"{depth} x {columns}", dtype, rows, lowered[call.args[0]],
        [given.astype(kind), *constants, np.zeros((rows, columns), np.float32)],
        range(1, 1 + len(constants)),
        given.astype(np.float64) @ weight, 2.0 * rows * depth * columns,
    )  # fmt: skip


def _weighted(
    bb: relax.BlockBuilder, x: relax.Var, weight: NDArray[np.float32], dtype: str
) -> relax.Expr:
    """The product with weights of a type."""
    if dtype in ("int8", "int4"):
        return groupwise_dense(bb, x, quantize(weight, int(dtype.removeprefix("int"))))
    if dtype == "bfloat16":
        weight = weight.astype(ml_dtypes.bfloat16)
    return relax.op.matmul(x, relax.const(tvm.runtime.tensor(weight)), out_dtype="float32")


def _attention(model: str, sizes: Sequence[int], dtype: str, rows: int) -> Case:
    """Attention of the last rows of a full cache."""
    heads, kv_heads, size, length = sizes
    q, k, v = (_random(i, rows, n * size) for i, n in enumerate((heads, kv_heads, kv_heads)))
    caches = [_random(i, kv_heads, length, size) for i in (3, 4)]
    kind = {"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    first = length - rows
    func = attend(heads, kv_heads, size, length, rows, dtype=dtype)
    name = f"{heads} heads of {size}, {kv_heads} of keys, {length} rows"
    return Case(
        "chunk" if rows > 1 else "attention", model, name, dtype, rows, func,
        [q, k, v, np.array([first], np.int32), *(c.astype(kind) for c in caches),
         np.zeros((rows, heads * size), np.float32)],
        (4, 5), _attended(q, k, v, caches, first), 4.0 * rows * heads * size * (first + rows / 2),
    )  # fmt: skip


def _attended(q: Array, k: Array, v: Array, caches: Sequence[Array], first: int) -> Array:
    kv_heads, _, size = caches[0].shape
    rows, group = len(q), q.shape[1] // size // kv_heads
    result = np.empty((rows, kv_heads, group, size))
    for g in range(kv_heads):
        keys, values = (cache[g].astype(np.float64) for cache in caches)
        for new, cache in ((k, keys), (v, values)):
            cache[first : first + rows] = new.reshape(rows, kv_heads, size)[:, g]
        for i in range(rows):
            seen = first + i + 1
            scores = q[i].reshape(kv_heads, group, size)[g] @ keys[:seen].T / size**0.5
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            result[i, g] = powers @ values[:seen] / powers.sum(axis=1, keepdims=True)
    return result.reshape(rows, -1)


def _random(seed: int, *shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
