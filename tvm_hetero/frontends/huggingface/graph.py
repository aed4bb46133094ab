"""The graph that is being made: its inputs, its states, and the parts that all families have.

A family (`gpt2`, `llama_family`) walks over its layers and asks for parts; each is emitted here,
with its weights as constants. Matrices stand in the graph as they are stored, as ``[out, in]`` or
``[in, out]`` and in the type in which they are stored: turning them is folded when they are packed,
and kernels widen them as they read, so that no copy is made for it. Where all weights are rounded
to bfloat16, so is what matrices are multiplied by: their products are of pairs then, on cores that
have them (`tvm_hetero.kernels.matmul.product_pairs`), and of the same values on all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax

from tvm_hetero.frontends.huggingface import operators
from tvm_hetero.frontends.huggingface.config import Config
from tvm_hetero.frontends.huggingface.shards import Heads, head_groups, word_groups
from tvm_hetero.frontends.huggingface.weights import Weights
from tvm_hetero.kernels.attention.kernel import attend
from tvm_hetero.kernels.quantized.product import GROUP, groupwise_dense, quantize
from tvm_hetero.util.contiguous import contiguous

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


@dataclass(frozen=True)
class BuildPlan:
    """What is fixed about a graph beside its model.

    Attributes
    ----------
    tokens : how many a run takes.
    length : rows of the caches.
    shards : in how many a layer is divided.
    weights : in which type matrices are kept.
    cache : in which type keys and values are.
    """

    tokens: int
    length: int
    shards: int
    weights: str
    cache: str


class DecoderGraph:
    """A Relax function in the making.

    Attributes
    ----------
    config, plan : what it is of.
    bb : the builder that everything is emitted to.
    token, position, last : the inputs; the last is None where one token is run.
    states : the caches, by their names, in order.
    heads : of each shard.
    """

    def __init__(self, config: Config, plan: BuildPlan, weights: Weights) -> None:
        self.config, self.plan, self._weights = config, plan, weights
        self.bb = relax.BlockBuilder()
        self.heads = head_groups(config, plan.shards)
        self.token = _input("token", [plan.tokens], "int32")
        self.position = _input("position", [1], "int32")
        self.last = _input("last", [1], "int32") if plan.tokens > 1 else None
        self.states = {
            name: _input(name, shape, plan.cache)
            for layer in range(config.layers)
            for name, shape in _state_shapes(config, plan, self.heads, layer)
        }
        self._rounded: dict[relax.Var, relax.Var] = {}
        # One constant for all layers: it is kept once.
        self._angles = [] if config.rotary is None else [constant(config.rotary.table(plan.length))]

    @property
    def inputs(self) -> dict[str, relax.Var]:
        """All parameters by their names, in order."""
        first = {"token": self.token, "position": self.position}
        return first | ({} if self.last is None else {"last": self.last}) | self.states

    def weight(self, name: str) -> Array:
        """A weight as it is stored, or rounded where that is asked of all of them."""
        values = self._weights[name]
        return values.astype(ml_dtypes.bfloat16) if self.plan.weights == "bfloat16" else values

    def vector(self, values: Array) -> relax.Expr:
        """A bias, or the scale of a norm."""
        return constant(values.astype(np.float32))

    def linear(self, x: relax.Expr, matrix: Array, bias: Array | None = None) -> relax.Expr:
        """``x @ matrix + bias``; the matrix is ``[in, out]``, perhaps a view of one turned."""
        product = self._product(x, matrix, _BITS.get(self.plan.weights))
        return product if bias is None else self.add(product, self.vector(bias))

    def head(self, x: relax.Expr, matrix: Array) -> relax.Expr:
        """The logits, each shard those of some words.

        Weights of few bits are of 8 here, since an error would be in every token.
        """
        bits = 8 if self.plan.weights in _BITS else None
        groups = word_groups(self.config, self.plan.shards)
        parts = [self._product(x, matrix[:, words], bits) for words in groups]
        return parts[0] if len(parts) == 1 else self.bb.emit(relax.op.concat(parts, axis=-1))

    def router(self, x: relax.Expr, matrix: Array) -> relax.Expr:
        """A product that decides where a token goes: as it is stored, it is small."""
        return self._product(x, matrix, None)

    def add(self, one: relax.Expr, other: relax.Expr) -> relax.Expr:
        """The sum of two tensors."""
        return self.bb.emit(relax.op.add(one, other))

    def joined(
        self, x: relax.Expr, parts: Sequence[relax.Expr], bias: Array | None = None
    ) -> relax.Expr:
        """``x`` plus what the shards of a layer have computed.

        What one shard has computed is added where it is computed. Several are a task of their
        own, so that none of them waits for the others.
        """
        added = [] if bias is None else [self.vector(bias)]
        if len(parts) > 1:
            return operators.add_all(self.bb, [x, *parts, *added])
        for one in (*added, x):
            parts = [self.add(parts[0], one)]
        return parts[0]

    def attention(
        self, layer: int, shard: int, q: relax.Expr, k: relax.Expr, v: relax.Expr
    ) -> relax.Expr:
        """What one shard's heads read from its caches, after having written ``k`` and ``v``."""
        c, plan, heads = self.config, self.plan, self.heads[shard]
        rotary = c.size if self._angles else 0
        kernel = attend(
            heads.count, heads.kv_count, c.size, plan.length, plan.tokens,
            c.scales[layer], rotary, plan.cache,
        )  # fmt: skip
        caches = [self.states[f"{kind}.{layer}.{shard}"] for kind in ("key", "value")]
        result = relax.TensorType([plan.tokens, heads.count * c.size], "float32")
        name = self.bb.add_func(kernel, "attention")
        args = relax.Tuple([q, k, v, self.position, *caches, *self._angles])
        return self.bb.emit(relax.call_tir(name, args, result))

    def activated(self, x: relax.Expr) -> relax.Expr:
        """The activation of the model's feed-forward networks."""
        return self.bb.emit(ACTIVATION_OPERATORS[self.config.activation](x))

    def times(self, one: relax.Expr, other: relax.Expr) -> relax.Expr:
        """The product of two tensors, number by number."""
        return self.bb.emit(relax.op.multiply(one, other))

    def wanted(self, x: relax.Expr) -> relax.Expr:
        """The row of the token whose logits are wanted."""
        return x if self.last is None else operators.take_row(self.bb, x, self.last)

    def factor(self, x: relax.Expr) -> relax.Expr:
        """What a matrix is multiplied by: ``x``, rounded where weights are, once for all of them.

        Rounded weights are most of the error, this little beside it (`python -m benchmarks.decode`
        prints the error of logits).
        """
        if self.plan.weights != "bfloat16" or str(x.ty.dtype) == "bfloat16":
            return x
        if x not in self._rounded:
            self._rounded[x] = self.bb.emit(relax.op.astype(x, "bfloat16"))
        return self._rounded[x]

    def _product(self, x: relax.Expr, matrix: Array, bits: int | None) -> relax.Expr:
        group = math.gcd(matrix.shape[0], GROUP)
        if bits is None or group < _LEAST_GROUP:
            x = self.factor(x)
            return self.bb.emit(relax.op.matmul(x, self._matrix(matrix), out_dtype="float32"))
        return self.bb.emit(groupwise_dense(self.bb, x, quantize(matrix, bits, group)))

    def _matrix(self, matrix: Array) -> relax.Expr:
        turned = not matrix.flags.c_contiguous and matrix.T.flags.c_contiguous
        value = constant(matrix.T if turned else matrix)
        return self.bb.emit(relax.op.permute_dims(value)) if turned else value


def constant(values: Array) -> relax.Expr:
    """Numbers that the graph carries."""
    return relax.const(tvm.runtime.tensor(contiguous(values)))


def _input(name: str, shape: Sequence[int], dtype: str) -> relax.Var:
    return relax.Var(name.replace(".", "_"), relax.TensorType(shape, dtype))


def _state_shapes(
    config: Config, plan: BuildPlan, groups: Sequence[Heads], layer: int
) -> list[tuple[str, list[int]]]:
    """Names and shapes of a layer's caches, in order."""
    return [
        (f"{kind}.{layer}.{shard}", [heads.kv_count, plan.length, config.size])
        for shard, heads in enumerate(groups)
        for kind in ("key", "value")
    ]


_BITS = {"int8": 8, "int4": 4}
# A matrix whose columns cannot be divided into groups of as many numbers stays as it is stored.
_LEAST_GROUP = 8

ACTIVATION_OPERATORS = {
    "gelu": relax.op.nn.gelu,
    "gelu_new": relax.op.nn.gelu_tanh,
    "gelu_pytorch_tanh": relax.op.nn.gelu_tanh,
    "relu": relax.op.nn.relu,
    "silu": relax.op.nn.silu,
    "swish": relax.op.nn.silu,
}
