"""Make Relax of an expanded graph, node by node.

TVM's importer knows most operators; it is asked for each node that has no converter of ours.  What
is made of a node is compared with what onnx infers right away, so that a difference names the node.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx
from onnx import NodeProto

import tvm_hetero
from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.conversion import converters  # noqa: F401  (registers them)
from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.counted import Counts, read_counted
from tvm_hetero.frontends.onnx.conversion.counted_outputs import counted_outputs, value_type
from tvm_hetero.frontends.onnx.conversion.registry import find_converter
from tvm_hetero.frontends.onnx.conversion.without_kernel import nodes_without_kernel
from tvm_hetero.frontends.onnx.model.dependence import how_to_fix
from tvm_hetero.frontends.onnx.model.element_types import PACKED_BITS, held_array, held_as
from tvm_hetero.frontends.onnx.model.made_bytes import pay_for_views
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph
from tvm_hetero.frontends.onnx.model.refusals import (
    ANOTHER_FORM,
    fault_text,
    form_of,
    refuse_all,
    settings_text,
    unknown_settings,
)
from tvm_hetero.frontends.onnx.model.verify_types import TypeComparison, type_of_relax
from tvm_hetero.passes.lengths import lengths_attribute
from tvm_hetero.processes.step_notes import note_step
from tvm_hetero.util.untrusted_names import identifier, printable

_OURS = Path(tvm_hetero.__file__).parent

if TYPE_CHECKING:
    import tvm
    from tvm import relax

    from tvm_hetero.frontends.onnx.conversion.memory_files import MemoryFiles


def convert_graph(
    graph: OnnxGraph,
    weights: MemoryFiles | None = None,
) -> tvm.ir.IRModule:
    """Return the Relax module of a graph.

    Parameters
    ----------
    graph : OnnxGraph
        Expanded: each operator of it is converted by us or by TVM.
    weights : MemoryFiles, optional
        Where its large constants go; by default they are copied into tensors of TVM's.

    Raises
    ------
    ModelError
        Nodes that cannot be converted, each with the reason.
    """
    _refuse_packed(graph)
    with _quiet():
        return _Conversions(graph, weights).run()


class _Conversions:
    """TVM's importer, with the walk over the nodes taken over from it.

    Its public function would serialize the model for a check that we have made, which is impossible
    above 2 GiB.  (Private names of it are used: TVM is pinned.)
    """

    def __init__(self, graph: OnnxGraph, weights: MemoryFiles | None) -> None:
        from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

        self.graph, self.weights = graph, weights
        self.importer = ONNXGraphImporter({}, None, sanitize=False)
        self.importer.opset = graph.opset
        self.values: dict[str, Any] = self.importer._nodes
        self.refusals: list[str] = []
        self.cause: BaseException | None = None
        self.comparison = TypeComparison(graph)
        self.counts = Counts()

    def run(self) -> tvm.ir.IRModule:
        """Convert all nodes; see :func:`convert_graph`."""
        from tvm import relax

        builder = self.importer.bb
        pay_for_views(self.graph.constants, self.graph.made)
        self.values.update({k: relax.const(self._tensor(k)) for k in self.graph.constants})
        parameters = self._parameters()
        with builder.function("main", params=parameters):
            with builder.dataflow():
                for node in self.graph.nodes:
                    self._convert(node)
                # A builder that is left half-way complains on stderr, so the function is ended.
                made = [self.values.get(o.name, relax.const(0)) for o in self.graph.outputs]
                counts = Counts() if self.refusals else self.counts
                made, counted = counted_outputs(builder, self.graph, made, counts)
                given = builder.emit_output(made[0] if len(made) == 1 else relax.Tuple(made))
            builder.emit_func_output(given)
        refuse_all(self.refusals, self.graph.opset, self.cause)
        module = builder.get()
        refuse_all(nodes_without_kernel(module, self.graph, self.values), self.graph.opset)
        attributes = {"num_input": len(parameters), **lengths_attribute(counted)}
        module["main"] = module["main"].with_attrs(attributes)
        return module

    def _tensor(self, name: str) -> tvm.runtime.Tensor:
        """Return a constant as a tensor of its own type.

        Of a NumPy array `relax.const` would make int32 of int64 and float32 of float64: the end of
        ``x[:, 1:]``, which exporters write as the largest int64, became -1.
        """
        from tvm.runtime import tensor

        note_step("the copy of constants", f"constant '{printable(name)}'")
        array = held_array(self.graph.array(name))
        return tensor(array) if self.weights is None else self.weights.tensor(array)

    def _parameters(self) -> list[relax.Var]:
        from tvm import relax

        taken = {o for node in self.graph.nodes for o in node.output} | set(self.graph.constants)
        parameters = []
        for value in self.graph.inputs:
            name = identifier(value.name, taken)
            taken.add(name)
            tensor = value.type.tensor_type
            dims = [d.dim_value for d in tensor.shape.dim]
            dtype = held_as(tensor.elem_type)
            parameters.append(relax.Var(name, relax.TensorType(dims, dtype)))
            self.values[value.name] = parameters[-1]
        return parameters

    def _convert(self, node: NodeProto) -> None:
        """Convert one node, or note why not; what reads a refused one's results is not judged."""
        note_step("TVM's importer", self.graph.describe(node))
        if any(name and name not in self.values for name in node.input):
            return
        operands = [self.values[name] if name else None for name in node.input]
        try:
            self._read_counted(node)
            results = self._results(node, operands)
            made = {name: r for name, r in zip(node.output, results, strict=False) if name}
            # What is counted has more room than onnx says, or the model declares.
            plain = {name: r for name, r in made.items() if name not in self.counts.axes}
            self._refuse_dynamic(node, plain)
            self.comparison.refuse_wrong(node, plain)
        except ModelError as error:
            self.refusals.append(str(error))
            self.cause = self.cause or error.__cause__
        except Exception as error:
            by_tvm = _is_raised_by_tvm(error)
            why = self._why_not(node, operands) if by_tvm else ""
            self.refusals.append(why or fault_text(self.graph.describe(node), error))
            self.cause = error
        else:
            self.values.update(made)

    def _read_counted(self, node: NodeProto) -> None:
        """Note what a node makes of counted values, or refuse it."""
        axes = self.counts.axes
        if any(name in axes for name in node.input):
            given = {name: self.values[name] for name in node.input if name}
            types = {name: t for name, v in given.items() if (t := value_type(v)) is not None}
            found = read_counted(node, self.graph, axes, types)
            axes.update({name: found for name in node.output if name})

    def _results(self, node: NodeProto, operands: list[relax.Expr | None]) -> list[relax.Expr]:
        converter = find_converter(node.op_type)
        if converter is not None:
            made = converter(Conversion(node, self.graph, self.importer.bb, operands, self.counts))
            if made is not None:
                listed = list(made) if isinstance(made, list | tuple) else [made]
                return [self.importer.bb.normalize(each) for each in listed]
        try:
            return self._by_tvm(node, operands)
        except Exception as error:
            raise ModelError(self._why_not(node, operands)) from error

    def _why_not(self, node: NodeProto, operands: list[relax.Expr | None]) -> str:
        """Why a node is not taken, in words of ONNX (TVM's own are the exception's cause)."""
        graph = self.graph
        settings = unknown_settings(node, graph.constants, graph.opset)
        if settings:
            return f"{graph.describe(node)} {settings_text(settings, graph.makers(), graph.inputs)}"
        types = [str(type_of_relax(operand) or "none") for operand in operands]
        return (
            f"{graph.describe(node)} of opset {graph.opset} is not taken in this form "
            f"({form_of(node, types)}). {ANOTHER_FORM}"
        )

    def _refuse_dynamic(self, node: NodeProto, made: Mapping[str, relax.Expr]) -> None:
        """Refuse a node whose result has a shape that depends on data: it cannot be measured."""
        graph = self.graph
        for name, result in made.items():
            found = type_of_relax(result)
            if found is None or (found.dims is not None and None not in found.dims):
                continue
            settings = unknown_settings(node, graph.constants, graph.opset)
            causes = list(settings.values()) or [n for n in node.input if n]
            raise ModelError(
                f"{graph.describe(node)} makes '{printable(name)}' in a shape that is known only "
                f"when it runs. {how_to_fix(causes, graph.makers(), graph.inputs)}"
            )

    def _by_tvm(self, node: NodeProto, operands: list[relax.Expr | None]) -> list[relax.Expr]:
        """Return what TVM's importer makes of a node, an expression for each output."""
        from tvm import relax
        from tvm.relax.frontend.onnx.onnx_frontend import onnx_input

        inputs = onnx_input()
        inputs.extend(operands)
        attributes = self.importer._parse_attr(node.attribute)
        attributes["tvm_custom"] = {"name": node.name, "num_outputs": len(node.output)}
        made = self.importer._convert_operator(node.op_type, inputs, attributes, self.graph.opset)
        if isinstance(made, relax.Tuple):
            return list(made.fields)
        if isinstance(made.ty, relax.TupleType):
            emit = self.importer.bb.emit
            return [emit(relax.TupleGetItem(made, i)) for i in range(len(made.ty.fields))]
        return [made]


def _refuse_packed(graph: OnnxGraph) -> None:
    """Refuse inputs and outputs of types of which two elements share a byte."""
    for what, values in (("input", graph.inputs), ("output", graph.outputs)):
        for value in values:
            if value.type.tensor_type.elem_type in PACKED_BITS:
                kind = onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type).lower()
                raise ModelError(
                    f"The {what} '{printable(value.name)}' is of type {kind}, whose elements are "
                    "no whole bytes: only constants and values inside a model may be. Export the "
                    "model with a Cast to int8 or float32 at this place."
                )


def _is_raised_by_tvm(error: Exception) -> bool:
    """Whether TVM refuses what a converter of ours makes: operands that do not fit each other."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and _OURS not in Path(trace.tb_frame.f_code.co_filename).parents


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep TVM's prints and Python warnings to ourselves: errors say what matters."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
