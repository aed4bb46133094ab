"""Give a model seeded random weights under which its output still says something.

The models of the onnx wheel carry constant weights: every output is then the same
number, and two programs that agree on it have proven nothing.  Random weights
drawn layer by layer without care (He et al., ICCV 2015, doi:10.1109/ICCV.2015.123)
are no better in a deep residual network: each block doubles the variance, the
logits grow by some 2**8, and softmax answers 1 for one class whatever the input.

So mean and variance of every value are estimated along the graph (``moments``), and
each layer's weights are drawn for what really arrives:

* convolution, matrix product: weights are independent with mean 0, so
  ``E[y**2] = fan_in * sigma**2 * E[x**2]`` exactly in expectation, however the ``x`` are
  correlated; ``sigma`` is chosen for ``E[y**2] = 1`` (`_fan_in_scaled`);
* a trunk of n residual blocks then grows to n, not 2**n, and the last layer, whose
  weights are drawn for that n, hands softmax logits of about unit variance.

What results on the nine light models stands in ``tests/frontends/onnx/test_randomize.py``.
"""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import NodeProto

from tvm_hetero.errors import UsageError
from tvm_hetero.frontends.onnx.activation_moments import Moments, moments_of, propagate
from tvm_hetero.frontends.onnx.expansion.walk import expand_graph
from tvm_hetero.frontends.onnx.model.isolated_rewrite import rewrite_isolated
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.processes.step_notes import note_step
from tvm_hetero.util.untrusted_names import printable

_BIAS = 0.1
"""Standard deviation of biases and BatchNormalization means."""

# position of an operand -> how it is drawn, by operator
_ROLES: dict[str, dict[int, str]] = {
    "Conv": {1: "weight", 2: "bias"},
    "ConvTranspose": {1: "weight", 2: "bias"},
    "Gemm": {0: "weight", 1: "weight", 2: "bias"},
    "MatMul": {0: "weight", 1: "weight"},
    "BatchNormalization": {1: "positive", 2: "bias", 3: "bias", 4: "positive"},
    "InstanceNormalization": {1: "positive", 2: "bias"},
    "LayerNormalization": {1: "positive", 2: "bias"},
    "GroupNormalization": {1: "positive", 2: "bias"},
    "Add": {0: "bias", 1: "bias"},
    "Sub": {0: "bias", 1: "bias"},
    "Sum": {0: "bias", 1: "bias"},
    "Mul": {0: "positive", 1: "positive"},
    "PRelu": {1: "slope"},
    "Gather": {0: "table"},
}


def randomize_weights(
    model: onnx.ModelProto, seed: int, *, limits: OnnxLimits = DEFAULT_LIMITS
) -> onnx.ModelProto:
    """Return a copy of `model` with every floating weight drawn at random.

    Weights are the constants of more than one element that a convolution, matrix
    product, normalization, addition, multiplication, PRelu or embedding reads.  Scalars
    (an epsilon, a temperature) and other constants (bounds, scales of a resize) stay.

    Parameters
    ----------
    model : onnx.ModelProto
        As :func:`~tvm_hetero.frontends.onnx.load.load_model` returns it; not changed.
    seed : int
        Not negative; the same seed gives the same bytes (for one version of NumPy).
    limits : Limits
        Cap on the sum of all constants.

    Returns
    -------
    onnx.ModelProto
        The weights are initializers.  BatchNormalization scales and variances lie in
        (0.5, 1.5).

    Raises
    ------
    ModelError
        The constants grow past the limit.
    UsageError
        The seed is negative.
    """

    def rewrite(graph: OnnxGraph) -> None:
        randomize_graph(graph, seed, limits)

    return rewrite_isolated(model, rewrite, limits, draws=True)


def randomize_graph(graph: OnnxGraph, seed: int, limits: OnnxLimits = DEFAULT_LIMITS) -> None:
    """Do the work of :func:`randomize_weights` in place."""
    if seed < 0:
        raise UsageError(f"The seed of random weights is {seed}; it must not be negative.")
    expand_graph(graph, None, limits)
    moments = {value.name: Moments(0.0, 1.0) for value in graph.inputs}
    drawn: set[str] = set()
    for index, node in enumerate(graph.nodes):
        for position, role in sorted(_ROLES.get(node.op_type, {}).items()):
            name = node.input[position] if position < len(node.input) else ""
            if _is_weight(graph, name) and name not in drawn:
                note_step("the drawing of weights", f"constant '{printable(name)}'")
                # A stream for each weight: inserting a node elsewhere changes nothing here.
                generator = np.random.default_rng([seed, index, position])
                value = _draw(graph, node, name, role, moments, generator)
                graph.constants[name] = value
                graph.made.bring(value.nbytes)
                drawn.add(name)
        moments.update(dict.fromkeys(node.output, propagate(graph, node, moments)))


def _is_weight(graph: OnnxGraph, name: str) -> bool:
    return bool(name) and graph.is_float(name) and graph.size(name) > 1


def _draw(
    graph: OnnxGraph,
    node: NodeProto,
    name: str,
    role: str,
    moments: dict[str, Moments],
    generator: np.random.Generator,
) -> np.ndarray:
    """Return new values for the constant `name` in the role that `node` gives it."""
    shape, dtype = graph.shape(name), graph.array(name).dtype
    if role == "positive":
        # Rounding must not reach the ends of the open interval (0.5, 1.5).
        return generator.uniform(0.501, 1.499, shape).astype(dtype)
    if role == "slope":
        return generator.uniform(0.0, 0.5, shape).astype(dtype)
    scale = {"bias": _BIAS, "table": 1.0}.get(role) or _fan_in_scaled(graph, node, name, moments)
    # float32 at once: the weights of vgg19 in float64 would be a gigabyte.
    value = generator.standard_normal(shape, dtype=np.float32)
    value *= np.float32(scale)
    return value.astype(dtype, copy=False)


def _fan_in_scaled(
    graph: OnnxGraph, node: NodeProto, name: str, moments: dict[str, Moments]
) -> float:
    """Return the standard deviation of weights that gives an output of moment 1."""
    shape = graph.shape(name)
    if node.op_type == "Conv":
        fan_in = math.prod(shape[1:])
    elif node.op_type == "ConvTranspose":
        strides = attribute(node, "strides", [])
        fan_in = shape[0] * math.prod(shape[2:]) / max(1, math.prod(strides))
    elif node.op_type == "Gemm":
        # Operand A is summed over its columns and B over its rows, unless transposed.
        left = name == node.input[0]
        transposed = bool(attribute(node, "transA" if left else "transB", 0))
        fan_in = shape[-1] if left != transposed else shape[0]
    else:
        fan_in = shape[-1] if name == node.input[0] or len(shape) == 1 else shape[-2]
    other = node.input[1] if name == node.input[0] else node.input[0]
    arriving = moments_of(graph, other, moments).second
    return 1.0 / math.sqrt(max(fan_in, 1) * max(arriving, 1e-6))
