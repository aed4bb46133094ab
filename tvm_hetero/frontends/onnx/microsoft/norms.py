"""Normalizations, with a residual and a bias before them, or embeddings.

    SkipLayerNormalization            LayerNorm(input + skip + bias)
    SkipSimplifiedLayerNormalization  RMSNorm(input + skip + bias)
    EmbedLayerNormalization           LayerNorm(word[ids] + position[...] + segment[ids])

The residual's sum is a result as well, which the next layer reads.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.microsoft.forms import ADVICE, contributed
from tvm_hetero.frontends.onnx.model.axes import checked_axis


@contributed(
    "LayerNormalization", operands=3, results=3, attributes=("axis", "epsilon", "stash_type")
)
def rewrite_layer_normalization(r: Rewriting) -> None:
    """ONNX Runtime had the operator before ONNX, under the same name."""
    kept = {name: r.attribute(name) for name in ("axis", "epsilon", "stash_type")}
    r.add("LayerNormalization", r.inputs, r.outputs, **kept)


@contributed(
    "SimplifiedLayerNormalization",
    operands=2,
    attributes=("axis", "epsilon"),
    only={"stash_type": TensorProto.FLOAT},
)
def rewrite_simplified_layer_normalization(r: Rewriting) -> None:
    """Divide by the root of the mean square."""
    x, scale = r.inputs
    axis = int(r.attribute("axis", -1))
    add_rms_norm(r, x, scale, axis, float(r.attribute("epsilon", 1e-5)), r.outputs)


@contributed("SkipLayerNormalization", operands=5, results=4, attributes=("epsilon",))
def rewrite_skip_layer_normalization(r: Rewriting) -> None:
    """Add, and normalize."""
    total = _residual(r, r.operand(4))
    scale, shift = r.operand(2), r.operand(3)
    given = [total, scale, shift] if shift else [total, scale]
    epsilon = float(r.attribute("epsilon", 1e-12))
    r.add("LayerNormalization", given, r.outputs[:1], axis=-1, epsilon=epsilon)


@contributed("SkipSimplifiedLayerNormalization", operands=4, results=4, attributes=("epsilon",))
def rewrite_skip_simplified_layer_normalization(r: Rewriting) -> None:
    """Add, and divide by the root of the mean square."""
    total = _residual(r, r.operand(3))
    add_rms_norm(r, total, r.operand(2), -1, float(r.attribute("epsilon", 1e-12)), r.outputs[:1])


@contributed(
    "EmbedLayerNormalization",
    operands=9,
    results=3,
    attributes=("epsilon",),
    indifferent=("mask_index_type",),
)
def rewrite_embed_layer_normalization(r: Rewriting) -> None:
    """Look up words, positions and segments, add, and normalize."""
    words = r.add("Gather", [r.operand(2), r.operand(0)], axis=0)
    if r.operand(8):
        places = r.add("Gather", [r.operand(3), r.operand(8)], axis=0)
    else:
        length = r.dims(r.operand(0))[1]
        places = r.add("Gather", [r.operand(3), r.constant(np.arange(length)[None])], axis=0)
    total = r.add("Add", [words, places])
    if r.operand(1):
        total = r.add("Add", [total, r.add("Gather", [r.operand(4), r.operand(1)], axis=0)])
    if r.wants(2):
        r.alias(total, r.outputs[2])
    if r.wants(1):
        _mask_index(r)
    if r.wants(0):
        epsilon = float(r.attribute("epsilon", 1e-12))
        given = [total, r.operand(5), r.operand(6)]
        r.add("LayerNormalization", given, r.outputs[:1], axis=-1, epsilon=epsilon)


def _mask_index(r: Rewriting) -> None:
    """How many ones the mask has in each sentence: none if there is no mask."""
    if not r.operand(7):
        batch = r.dims(r.operand(0))[0]
        r.alias(r.constant(np.zeros(batch, np.int32)), r.outputs[1])
        return
    ones = r.add("Cast", [r.add("Equal", [r.operand(7), r.constant(1, np.int32)])], to=6)
    r.add("ReduceSum", [ones, r.constant([1], np.int64)], r.outputs[1:2], keepdims=0)


def _residual(r: Rewriting, bias: str) -> str:
    """Add what is normalized, which is the fourth result; mean and deviation are not given."""
    for position in (1, 2):
        if r.wants(position):
            r.refuse(f"gives its result {position}, which only training reads. {ADVICE}")
    total = r.add("Add", [r.operand(0), r.operand(1)])
    if bias:
        total = r.add("Add", [total, bias])
    if r.wants(3):
        r.alias(total, r.outputs[3])
    return total


def add_rms_norm(
    r: Rewriting, x: str, scale: str, axis: int, epsilon: float, outputs: int | list[str]
) -> str:
    """Add ``x / sqrt(mean(x^2) + epsilon) * scale``; returns the result's name.

    Parameters
    ----------
    r : Rewriting
        The node in whose place it stands; its first operand has the type of `x`.
    x, scale : str
        Values.
    axis : int
        The first dimension of those over which the mean is taken.
    epsilon : float
        Added to the mean.
    outputs : int or list of str
        As `Rewriting.add` takes them.
    """
    rank = r.rank(r.inputs[0])
    axes = list(range(checked_axis(r.refuse, axis, rank), rank))
    # In float32, as ONNX Runtime's kernels compute.
    half = r.element_type(r.inputs[0]) != TensorProto.FLOAT
    wide = r.add("Cast", [x], to=TensorProto.FLOAT) if half else x
    mean = add_mean(r, r.add("Mul", [wide, wide]), axes)
    raised = r.add("Add", [mean, r.constant(epsilon, np.float32)])
    normal = r.add("Div", [wide, r.add("Sqrt", [raised])])
    if half:
        normal = r.add("Cast", [normal], to=r.element_type(r.inputs[0]))
    return r.add("Mul", [normal, scale], outputs)


def add_mean(r: Rewriting, x: str, axes: list[int]) -> str:
    """Add the mean over axes, which are kept; the form of ReduceMean depends on the opset."""
    if r.opset >= 18:
        return r.add("ReduceMean", [x, r.constant(axes, np.int64)], keepdims=1)
    return r.add("ReduceMean", [x], axes=axes, keepdims=1)
