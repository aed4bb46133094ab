"""The graph that is being made, and the parts that all encoders have.

Tokens of all sequences stand below each other, as rows of a matrix; attention alone takes them
apart. Weights are float32 whatever type they are stored in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from tvm import relax

from tvm_hetero.frontends.huggingface import operators
from tvm_hetero.frontends.huggingface.encoders.config import EncoderConfig
from tvm_hetero.frontends.huggingface.encoders.stored import StoredWeights
from tvm_hetero.frontends.huggingface.graph import ACTIVATION_OPERATORS, constant

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[Any]
    Part = Callable[[relax.Expr], relax.Expr]

# What is added to the score of a token that is not seen: its share is 0 beside any that is.
UNSEEN = float(np.finfo(np.float32).min)


class EncoderGraph:
    """A Relax function in the making.

    Attributes
    ----------
    config, stored : what it is of.
    whole : all weights of the folder, by their names there.
    inputs : by name.
    bb : the builder that everything is emitted to.
    batch : sequences of a run.
    """

    def __init__(
        self,
        config: EncoderConfig,
        whole: StoredWeights,
        inputs: Mapping[str, relax.Var],
        bb: relax.BlockBuilder,
    ) -> None:
        self.config, self.whole, self.inputs, self.bb = config, whole, inputs, bb
        self.stored = whole.within(config.family)
        self.batch = int(next(iter(inputs.values())).ty.shape[0])

    def emit(self, value: relax.Expr) -> relax.Expr:
        """Bind an expression to a name."""
        return self.bb.emit(value)

    def linear(
        self, x: relax.Expr, name: str, there: int, back: int, *, bias: bool = True
    ) -> relax.Expr:
        """``x @ weight^T + bias``, from ``there`` numbers to ``back``."""
        matrix = constant(self.stored.take(f"{name}.weight", back, there))
        product = self.emit(relax.op.matmul(x, self.emit(relax.op.permute_dims(matrix))))
        if not bias:
            return product
        return self.emit(relax.op.add(product, constant(self.stored.take(f"{name}.bias", back))))

    def norm(self, x: relax.Expr, name: str, epsilon: float | None = None) -> relax.Expr:
        """Each row with mean 0 and variance 1, times the scale, plus the shift."""
        width = int(x.ty.shape[-1])
        scale, shift = (
            constant(self.stored.take(f"{name}.{kind}", width)) for kind in ("weight", "bias")
        )
        return operators.layer_norm(self.bb, x, scale, shift, epsilon or self.config.epsilon)

    def activated(self, x: relax.Expr, activation: str | None = None) -> relax.Expr:
        """The activation of the feed-forward networks, or another one."""
        kind = activation or self.config.activation
        if kind == "quick_gelu":
            steep = self.emit(relax.op.sigmoid(relax.op.multiply(x, relax.const(1.702, "float32"))))
            return self.emit(relax.op.multiply(x, steep))
        return self.emit(_OPERATORS[kind](x))

    def rows(self, x: relax.Expr) -> relax.Expr:
        """``[batch, tokens, width]`` as rows."""
        *_, width = (int(extent) for extent in x.ty.shape)
        return self.emit(relax.op.reshape(x, (-1, width)))

    def sequences(self, x: relax.Expr) -> relax.Expr:
        """Rows as ``[batch, tokens, width]``."""
        rows, width = (int(extent) for extent in x.ty.shape)
        return self.emit(relax.op.reshape(x, (self.batch, rows // self.batch, width)))

    def first_tokens(self, x: relax.Expr) -> relax.Expr:
        """Of rows those of each sequence's first token."""
        width = int(x.ty.shape[1])
        taken = self.emit(relax.op.strided_slice(self.sequences(x), [1], [0], [1]))
        return self.emit(relax.op.reshape(taken, (self.batch, width)))

    def convolved(
        self, x: relax.Expr, name: str, width: int, size: int, stride: int, *, bias: bool = True
    ) -> relax.Expr:
        """A convolution over times, of ``[batch, channels, times]``; nothing is added around."""
        weight = constant(self.stored.take(f"{name}.weight", width, int(x.ty.shape[1]), size))
        found = self.emit(relax.op.nn.conv1d(x, weight, strides=stride))
        if not bias:
            return found
        added = self.stored.take(f"{name}.bias", width).reshape(1, -1, 1)
        return self.emit(relax.op.add(found, constant(added)))

    def turned(self, x: relax.Expr) -> relax.Expr:
        """``[batch, channels, times]`` as ``[batch, times, channels]``, and back."""
        return self.emit(relax.op.permute_dims(x, [0, 2, 1]))

    def embedded(self, numbers: relax.Expr, table: Array) -> relax.Expr:
        """The row of a table for each number, in the order of all numbers."""
        count = int(np.prod([int(extent) for extent in numbers.ty.shape]))
        flat = self.emit(relax.op.reshape(numbers, (count,)))
        return operators.look_up(self.bb, constant(table), flat)

    def unseen(self, mask: relax.Expr) -> relax.Expr:
        """What is added to scores, ``[batch, 1, 1, tokens]``, of a mask of ones and zeros."""
        nought, least = relax.const(0.0, "float32"), relax.const(UNSEEN, "float32")
        seen = self.emit(relax.op.not_equal(mask, relax.const(0, str(mask.ty.dtype))))
        added = self.emit(relax.op.where(seen, nought, least))
        return self.emit(relax.op.reshape(added, (self.batch, 1, 1, int(mask.ty.shape[1]))))

    def layers(self, x: relax.Expr, added: relax.Expr | None) -> relax.Expr:
        """All layers, with what is added to scores."""
        for number in range(self.config.layers):
            x = self._layer(x, f"{self.config.family.layer.at}.{number}", added)
        return x

    def _layer(self, x: relax.Expr, start: str, added: relax.Expr | None) -> relax.Expr:
        names = self.config.family.layer
        x = self._around(x, f"{start}.{names.first}", lambda y: self._attention(y, start, added))
        return self._around(x, f"{start}.{names.second}", lambda y: self._network(y, start))

    def _around(self, x: relax.Expr, norm: str, part: Part) -> relax.Expr:
        """A part of a layer with its norm, and what goes past it."""
        if self.config.family.layer.norm_before:
            return self.emit(relax.op.add(x, part(self.norm(x, norm))))
        return self.norm(self.emit(relax.op.add(part(x), x)), norm)

    def _network(self, x: relax.Expr, start: str) -> relax.Expr:
        config, names = self.config, self.config.family.layer
        hidden = self.linear(x, f"{start}.{names.inner}", config.width, config.inner)
        return self.linear(
            self.activated(hidden), f"{start}.{names.outer}", config.inner, config.width
        )

    def _attention(self, x: relax.Expr, start: str, added: relax.Expr | None) -> relax.Expr:
        names, width = self.config.family.layer, self.config.width
        q, k, v = (
            self.linear(x, f"{start}.{name}", width, width, bias=bias)
            for name, bias in (
                (names.query, True), (names.key, names.key_bias), (names.value, True),
            )
        )  # fmt: skip
        scale = relax.const((width // self.config.heads) ** -0.5, "float32")
        q = self._heads(self.emit(relax.op.multiply(q, scale)), (0, 2, 1, 3))
        scores = self.emit(relax.op.matmul(q, self._heads(k, (0, 2, 3, 1))))
        if added is not None:
            scores = self.emit(relax.op.add(scores, added))
        shares = self.emit(relax.op.nn.softmax(scores, axis=-1))
        read = self.emit(relax.op.matmul(shares, self._heads(v, (0, 2, 1, 3))))
        read = self.emit(relax.op.permute_dims(read, [0, 2, 1, 3]))
        joined = self.emit(relax.op.reshape(read, (int(x.ty.shape[0]), width)))
        return self.linear(joined, f"{start}.{names.output}", width, width)

    def _heads(self, x: relax.Expr, order: tuple[int, ...]) -> relax.Expr:
        """Rows as ``[batch, tokens, heads, size]``, in another order."""
        rows, width = (int(extent) for extent in x.ty.shape)
        heads = self.config.heads
        shape = (self.batch, rows // self.batch, heads, width // heads)
        return self.emit(relax.op.permute_dims(self.emit(relax.op.reshape(x, shape)), list(order)))


_OPERATORS = {
    **ACTIVATION_OPERATORS,
    "gelu_python": relax.op.nn.gelu,
    "gelu_fast": relax.op.nn.gelu_tanh,
    "tanh": relax.op.tanh,
}
