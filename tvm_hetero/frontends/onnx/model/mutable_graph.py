"""A model in a form that rewrites can work on: nodes, constants by name, inputs, outputs.

The model that it is made from is never changed: nodes are copies, and constants
are the model's own tensors until a rewrite puts an array in their place.  So
weights that no one touches are neither decoded nor copied.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, numpy_helper

from tvm_hetero.frontends.onnx.model.inner_graphs import names_within, node_reads, rename_reads
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.made_bytes import MadeBytes, pay_for_views
from tvm_hetero.frontends.onnx.model.native_calls import INFERENCE, call_native
from tvm_hetero.frontends.onnx.model.tensors import FLOATS, all_tensors, describe
from tvm_hetero.util.untrusted_names import printable

_SMALL = 1024
"""Constants up to this many elements take part in shape inference; larger ones lend
their shape alone, which keeps what is handed over far below protobuf's 2 GiB."""


@dataclass(frozen=True)
class Known:
    """What is known of a value: its shape (None: not all of it) and ONNX element type."""

    dims: tuple[int, ...] | None
    element_type: int


class OnnxGraph:
    """A model under rewriting.

    Attributes
    ----------
    nodes : list of NodeProto
        In topological order, owned by this object.
    constants : dict of str to TensorProto or ndarray
        Initializers.  TensorProtos are shared with the model and must not be changed.
    inputs, outputs : list of ValueInfoProto
        True inputs (initializers listed among the inputs are not) and outputs.
    exact : set of str
        Values whose last bit counts: they are computed as they are written.
    bounded : set of str
        Values that lie within the range of the type that they are cast to, or are NaN.
    quantized_states : set of str
        Results of recurrent nodes whose state is multiplied in levels of its range.
    state_factors, input_factors : dict of str to ndarray
        For such results, where R, or W, is whole numbers of 8 bits: (direction, gates x hidden), by
        what its rows are multiplied.
    choices : dict of str to tuple of str
        For values that are chosen while the model runs, by what names its user knows the choice.
    origins : dict of str to str
        For values, the node of the file that they come from, in words, where it is known.
    """

    def __init__(self, model: onnx.ModelProto, limits: OnnxLimits = DEFAULT_LIMITS) -> None:
        self._model, self._limits = model, limits
        self.constants: dict[str, TensorProto | np.ndarray] = {
            t.name: t for t in model.graph.initializer
        }
        self.nodes = [_copy(node) for node in model.graph.node]
        self.inputs = [i for i in model.graph.input if i.name not in self.constants]
        self.outputs = list(model.graph.output)
        self.exact: set[str] = set()
        self.bounded: set[str] = set()
        self.quantized_states: set[str] = set()
        self.state_factors: dict[str, np.ndarray] = {}
        self.input_factors: dict[str, np.ndarray] = {}
        self.origins: dict[str, str] = {}
        self.choices: dict[str, tuple[str, ...]] = {}
        # From where names of a base are looked for: an unrolled loop asks for thousands of each.
        self._numbered: dict[str, int] = {}
        self._taken = set(names_within(model.graph)) | set(self.constants)
        self._taken.update(i.name for i in model.graph.input)

    @cached_property
    def made(self) -> MadeBytes:
        """What the model may still make of itself."""
        return MadeBytes((tensor for _, tensor in all_tensors(self._model)), self._limits)

    @property
    def most_met(self) -> int:
        """How many nodes it may have in all while it is rewritten: many become constants."""
        return 4 * self._limits.nodes

    @property
    def opset(self) -> int:
        """Version of the default operator set."""
        versions = (o.version for o in self._model.opset_import if o.domain in ("", "ai.onnx"))
        return int(next(versions))

    def opset_of(self, domain: str) -> int:
        """Return the version of another operator set, 0 where the model names none."""
        versions = (o.version for o in self._model.opset_import if o.domain == domain)
        return int(next(versions, 0))

    @property
    def functions(self) -> dict[tuple[str, str], onnx.FunctionProto]:
        """The model's own functions by domain and name."""
        return {(f.domain, f.name): f for f in self._model.functions}

    @property
    def output_names(self) -> set[str]:
        """Names of the graph's outputs."""
        return {o.name for o in self.outputs}

    def array(self, name: str) -> np.ndarray:
        """Return the constant `name` as an array (not to be written to)."""
        value = self.constants[name]
        return value if isinstance(value, np.ndarray) else numpy_helper.to_array(value)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of the constant `name` without reading its data."""
        value = self.constants[name]
        return tuple(value.shape if isinstance(value, np.ndarray) else value.dims)

    def size(self, name: str) -> int:
        """Return the number of elements of the constant `name`."""
        return math.prod(self.shape(name), start=1)

    def is_float(self, name: str) -> bool:
        """Whether `name` is a constant of a floating type that NumPy computes with."""
        return name in self.constants and element_type(self.constants[name]) in FLOATS

    def consumers(self) -> dict[str, list[NodeProto]]:
        """Return, for each value, the nodes that read it, once for each time that they do.

        A node whose inner graphs read a value is one of them.
        """
        readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in self.nodes:
            for name in node_reads(node):
                readers[name].append(node)
        return readers

    def describe(self, node: NodeProto) -> str:
        """Return a node in words, as the file has it: what stands in its place bears its name."""
        own = describe(node)
        origin = next((self.origins[name] for name in node.output if name in self.origins), own)
        same = origin.endswith(own.removeprefix("node"))
        return origin if same else f"{origin}: its {printable(node.op_type)}"

    def makers(self) -> dict[str, NodeProto]:
        """Return the node that makes each value, by the value's name."""
        return {name: node for node in self.nodes for name in node.output if name}

    def fresh(self, base: str) -> str:
        """Return a value name that the model does not use, and take it."""
        count = self._numbered.get(base, 0)
        name = f"{base}__{count}" if count else base
        while name in self._taken:
            count += 1
            name = f"{base}__{count}"
        self._numbered[base] = count
        self._taken.add(name)
        return name

    def rename_uses(self, renamed: dict[str, str]) -> None:
        """Let every reader of a key of `renamed` read its (final) value instead."""
        if renamed:
            for node in self.nodes:
                rename_reads(node, renamed)

    def keep_marks(self, old: str, new: str) -> None:
        """Let what has been stated of a value hold of its new name."""
        for marked in (self.exact, self.bounded, self.quantized_states):
            if old in marked:
                marked.add(new)
        for factors in (self.state_factors, self.input_factors):
            if old in factors:
                factors[new] = factors[old]
        if old in self.choices:
            self.choices[new] = self.choices[old]

    def sweep(self) -> None:
        """Drop nodes and constants from which no output can be reached."""
        needed = set(self.output_names)
        kept = []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(node_reads(node))
        self.nodes = kept[::-1]
        self.constants = {k: v for k, v in self.constants.items() if k in needed}

    def known_values(self, *, strict: bool = False) -> dict[str, Known]:
        """Return the type and shape of every value, as far as shape inference finds them.

        Parameters
        ----------
        strict : bool
            Let onnx raise its ``InferenceError`` where operands do not fit.
        """
        graph = self.inferred(strict=strict).graph
        known = {
            value.name: Known(static_dims(value), value.type.tensor_type.elem_type)
            for value in [*graph.value_info, *graph.input, *graph.output]
        }
        for name, constant in self.constants.items():
            known[name] = Known(self.shape(name), element_type(constant))
        return known

    def inferred(self, *, strict: bool = False) -> onnx.ModelProto:
        """Return the skeleton with the types and shapes that onnx infers from it.

        Without onnx's data propagation: that lists the elements of one-dimensional
        values, so that six Concat nodes make it take all the memory there is.
        """
        infer = partial(onnx.shape_inference.infer_shapes, strict_mode=strict)
        return call_native(INFERENCE, self.skeleton(), infer)

    def state_outputs(self) -> None:
        """Set output shapes that are open, where they can be inferred."""
        if all(static_dims(value) is not None for value in self.outputs):
            return
        inferred = {value.name: value for value in self.inferred().graph.output}
        for position, value in enumerate(self.outputs):
            if static_dims(inferred[value.name]) is not None:
                self.outputs[position] = inferred[value.name]

    def skeleton(self) -> onnx.ModelProto:
        """Return the model with large constants as inputs: all structure, hardly any data."""
        small = {k: v for k, v in self.constants.items() if self.size(k) <= _SMALL}
        large = [
            onnx.helper.make_tensor_value_info(k, element_type(v), self.shape(k))
            for k, v in self.constants.items()
            if k not in small
        ]
        return self._assemble([*self.inputs, *large], small)

    def to_model(self) -> onnx.ModelProto:
        """Return a new model of the present state."""
        pay_for_views(self.constants, self.made)
        return self._assemble(self.inputs, self.constants)

    def model_of(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        """Return a model of another graph, with the operator sets and functions of this one."""
        source = self._model
        model = onnx.ModelProto(
            # From version 4 on initializers need not be listed as inputs, and here are not.
            ir_version=max(source.ir_version, 4),
            producer_name=source.producer_name,
            producer_version=source.producer_version,
            graph=graph,
        )
        model.opset_import.extend(source.opset_import)
        model.functions.extend(source.functions)
        return model

    def _assemble(
        self,
        inputs: Iterable[ValueInfoProto],
        constants: dict[str, TensorProto | np.ndarray],
    ) -> onnx.ModelProto:
        model = self.model_of(onnx.GraphProto(name=self._model.graph.name or "model"))
        graph = model.graph
        graph.node.extend(self.nodes)
        graph.input.extend(inputs)
        graph.output.extend(self.outputs)
        for name, value in constants.items():
            if isinstance(value, np.ndarray):
                graph.initializer.append(numpy_helper.from_array(value, name))
            else:
                graph.initializer.append(value)
        return model


def element_type(value: TensorProto | np.ndarray) -> int:
    """Return the ONNX element type of a constant."""
    if isinstance(value, np.ndarray):
        return int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))
    return int(value.data_type)


def static_dims(value: ValueInfoProto) -> tuple[int, ...] | None:
    """Return the dimensions of a tensor type, or None unless all are given as numbers."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    dims = tensor.shape.dim
    return tuple(d.dim_value for d in dims) if all(d.HasField("dim_value") for d in dims) else None


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """Return the value of a node's attribute, or `default` where it is not given."""
    for candidate in node.attribute:
        if candidate.name == name:
            return onnx.helper.get_attribute_value(candidate)
    return default


def _copy(node: NodeProto) -> NodeProto:
    copy = NodeProto()
    copy.CopyFrom(node)
    return copy
