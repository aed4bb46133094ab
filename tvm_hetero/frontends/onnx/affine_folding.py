"""Fold chains of per-channel affine maps, BatchNormalization first among them.

Notation.  For a value ``x`` with channels ``c`` on axis 1, an affine node computes
``y[c] = k[c] * x[c] + b[c]`` with constants ``k`` and ``b``:

=====================  ==========================  =============================
node                   k                           b
=====================  ==========================  =============================
BatchNormalization     scale / sqrt(var + eps)     bias - mean * k
Mul(x, a), Div(x, a)   a, 1 / a                    0
Add(x, a), Sub(x, a)   1                           a, -a
Sub(a, x)              -1                          a
=====================  ==========================  =============================

Affine maps compose: first ``(k1, b1)``, then ``(k2, b2)`` is
``(k1 * k2, b1 * k2 + b2)``.  A chain of nodes each of which is the only reader of
the one before is one such map, and

* behind a convolution with constant weights ``W`` and bias ``B`` that no one else
  reads, it disappears: ``W'[c] = W[c] * k[c]``, ``B' = B * k + b``
  (Jacob et al., Quantization and Training of Neural Networks, CVPR 2018, 3.2;
  doi:10.1109/CVPR.2018.00286);
* elsewhere (before an activation, after a Concat) it becomes one ``Mul`` and one
  ``Add`` with constants computed here, which fuse with their neighbours.

All of it is computed in float64 and rounded once.  `_as_affine` reads a node,
`_chains` finds the chains, `_fold_into_conv` and `_as_mul_add` write them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from onnx import NodeProto, helper

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.model.mutable_graph import Known, OnnxGraph, attribute
from tvm_hetero.frontends.onnx.model.tensors import FLOATS
from tvm_hetero.util.untrusted_names import printable


@dataclass(frozen=True)
class Affine:
    """``y[c] = k[c] * x[c] + b[c]``; `k` and `b` are float64 of one element per channel."""

    k: np.ndarray
    b: np.ndarray

    def then(self, after: Affine) -> Affine:
        """Return this map followed by `after`."""
        return Affine(self.k * after.k, self.b * after.k + after.b)


@dataclass(frozen=True)
class AffineChain:
    """Affine nodes in a row: `map` takes the value `source` to the value `target`.

    `rank` is the number of dimensions of both, `dtype` the type of the last constants.
    """

    nodes: tuple[NodeProto, ...]
    source: str
    target: str
    map: Affine
    rank: int
    dtype: np.dtype


def fold_affine(graph: OnnxGraph) -> None:
    """Fold every chain of per-channel affine nodes of `graph`, in place.

    Chains that are a single ``Mul``, ``Add``, ... and follow no convolution stay as they
    are, as does anything whose folded constants would not be finite.
    """
    makers = {name: node for node in graph.nodes for name in node.output}
    readers = graph.consumers()
    outputs = graph.output_names
    replaced: dict[int, list[NodeProto]] = {}  # id of a node -> what stands in its place
    for chain in _chains(graph):
        conv = makers.get(chain.source)
        alone = len(readers[chain.source]) == 1 and chain.source not in outputs
        if conv is not None and alone and _fold_into_conv(graph, conv, chain):
            new: list[NodeProto] = []
        elif len(chain.nodes) > 1 or chain.nodes[0].op_type == "BatchNormalization":
            new = _as_mul_add(graph, chain)
            if not new:
                continue
        else:
            continue
        for node in chain.nodes[:-1]:
            replaced[id(node)] = []
        replaced[id(chain.nodes[-1])] = new
    graph.nodes = [new for node in graph.nodes for new in replaced.get(id(node), [node])]
    graph.sweep()


def _chains(graph: OnnxGraph) -> list[AffineChain]:
    """Return the maximal chains of affine nodes, in topological order of their first node."""
    known = graph.known_values()
    readers, outputs = graph.consumers(), graph.output_names
    chains: dict[str, AffineChain] = {}  # by target
    for node in graph.nodes:
        chain = _as_affine(graph, node, known)
        if chain is None:
            continue
        source = chain.source
        before = chains.get(source)
        if before and len(readers[source]) == 1 and source not in outputs:
            del chains[source]
            chain = replace(
                chain,
                nodes=(*before.nodes, node),
                source=before.source,
                map=before.map.then(chain.map),
            )
        chains[chain.target] = chain
    return list(chains.values())


def _as_affine(graph: OnnxGraph, node: NodeProto, known: dict[str, Known]) -> AffineChain | None:
    """Return `node` as a chain of one, or None if it is not an affine node."""
    operand = None if node.output[0] in graph.exact else _operands(graph, node)
    if operand is None or operand[0] not in known:
        return None
    source, constant = operand
    value = known[source]
    if value.dims is None or len(value.dims) < 2 or value.element_type not in FLOATS:
        return None
    if node.op_type == "BatchNormalization":
        step = _batch_norm(graph, node)
    else:
        flipped = constant == node.input[0]
        step = _binary(graph, node.op_type, constant, flipped, value.dims)
    if step is None or step.k.shape != (value.dims[1],):
        return None
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(value.element_type))
    return AffineChain((node,), source, node.output[0], step, len(value.dims), dtype)


def _operands(graph: OnnxGraph, node: NodeProto) -> tuple[str, str] | None:
    """Return the names of the variable and of (one) constant operand of a candidate."""
    if node.op_type == "BatchNormalization":
        return node.input[0], node.input[1]
    if node.op_type not in ("Mul", "Div", "Add", "Sub"):
        return None
    left, right = node.input
    if graph.is_float(right) and left not in graph.constants:
        return left, right
    if graph.is_float(left) and right not in graph.constants and node.op_type != "Div":
        return right, left
    return None


def _batch_norm(graph: OnnxGraph, node: NodeProto) -> Affine | None:
    """Return the map of a BatchNormalization at inference."""
    names = node.input[1:5]
    # onnx checks neither that these are vectors nor that they are of one length.
    if not all(graph.is_float(n) for n in names) or len({graph.shape(n) for n in names}) != 1:
        return None
    scale, bias, mean, variance = (graph.array(n).astype(np.float64) for n in names)
    epsilon = number(node, "epsilon", 1e-5)
    k = scale / np.sqrt(variance + epsilon)
    return Affine(k, bias - mean * k)


def number(node: NodeProto, name: str, default: float) -> float:
    """Return a numeric attribute of a node, or `default` where it is not given."""
    value = attribute(node, name, default)
    if not isinstance(value, int | float):
        raise ModelError(
            f"The attribute '{name}' of node '{printable(node.name)}' ({printable(node.op_type)}) "
            "is no number. Export the model again."
        )
    return float(value)


def _binary(
    graph: OnnxGraph,
    operator: str,
    constant: str,
    flipped: bool,
    dims: tuple[int, ...],
) -> Affine | None:
    """Return the map of an arithmetic node with one constant operand (`flipped`: the left)."""
    value = _per_channel(graph, constant, dims)
    if value is None:
        return None
    ones, zeros = np.ones_like(value), np.zeros_like(value)
    if operator == "Mul":
        return Affine(value, zeros)
    if operator == "Div":
        return Affine(1.0 / value, zeros)
    if operator == "Add":
        return Affine(ones, value)
    return Affine(-ones, value) if flipped else Affine(ones, -value)


def _per_channel(graph: OnnxGraph, name: str, dims: tuple[int, ...]) -> np.ndarray | None:
    """Return a constant as one float64 per channel of a value of shape `dims`, if it is that."""
    shape = graph.shape(name)
    if len(shape) > len(dims):
        return None
    aligned = (1,) * (len(dims) - len(shape)) + shape
    if any(size != 1 for axis, size in enumerate(aligned) if axis != 1):
        return None
    if aligned[1] not in (1, dims[1]):
        return None  # it widens the value
    return np.broadcast_to(graph.array(name).astype(np.float64).ravel(), (dims[1],))


def _fold_into_conv(graph: OnnxGraph, conv: NodeProto, chain: AffineChain) -> bool:
    """Let `conv` compute the chain too; return False where it cannot."""
    constant = all(graph.is_float(name) for name in conv.input[1:] if name)
    if conv.op_type != "Conv" or not constant:
        return False
    weight = graph.array(conv.input[1])
    graph.made.charge(weight.nbytes, graph.describe(conv))
    if any(graph.size(name) != len(weight) for name in conv.input[2:3] if name):
        return False  # an invalid model; TVM will say so
    has_bias = len(conv.input) > 2 and conv.input[2]
    bias = graph.array(conv.input[2]).astype(np.float64).ravel() if has_bias else 0.0
    k = chain.map.k.reshape(-1, *[1] * (weight.ndim - 1))
    new_weight = (weight * k).astype(weight.dtype)
    new_bias = (bias * chain.map.k + chain.map.b).astype(weight.dtype)
    if not (np.isfinite(new_weight).all() and np.isfinite(new_bias).all()):
        return False
    names = [graph.fresh(f"{conv.output[0]}_{part}") for part in ("weight", "bias")]
    graph.constants.update(zip(names, (new_weight, new_bias), strict=True))
    conv.input[:] = [conv.input[0], *names]
    conv.output[0] = chain.target
    return True


def _as_mul_add(graph: OnnxGraph, chain: AffineChain) -> list[NodeProto]:
    """Return ``Mul`` and ``Add`` nodes for the chain; none where they would not be finite."""
    k, b = (_broadcastable(v, chain) for v in (chain.map.k, chain.map.b))
    if not (np.isfinite(k).all() and np.isfinite(b).all()):
        return []
    steps = [("Mul", k)] if (k != 1).any() or not (b != 0).any() else []
    steps += [("Add", b)] if (b != 0).any() else []
    nodes, value = [], chain.source
    for position, (operator, constant) in enumerate(steps):
        operand = graph.fresh(f"{chain.target}_{operator.lower()}")
        graph.constants[operand] = constant
        last = position == len(steps) - 1
        result = chain.target if last else graph.fresh(f"{chain.target}_scaled")
        # Node names must be unique to ONNX Runtime, so only the first inherits one.
        name = chain.nodes[0].name if position == 0 else ""
        nodes.append(helper.make_node(operator, [value, operand], [result], name=name))
        value = result
    return nodes


def _broadcastable(values: np.ndarray, chain: AffineChain) -> np.ndarray:
    """Return per-channel values in the chain's type, shaped (C, 1, ...) for axis 1 of its rank."""
    return values.astype(chain.dtype).reshape(-1, *[1] * (chain.rank - 2))
