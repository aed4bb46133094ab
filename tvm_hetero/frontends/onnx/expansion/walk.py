"""One walk over a graph, after which only what the importer takes is left.

Nodes are met in topological order, so that everything that can be known of a value is known when
its reader is met.  A node is, by the first that applies,

1. computed, if it depends on constants alone or makes empty tensors (`folding`), or makes something
   of them (`made_of_nothing`);
2. replaced by other nodes, which are then met in its place: by its rewriter (`registry`), or by the
   body of the model's or onnx's own function of that name (`functions`), unless the importer takes
   the operator as it is;
3. kept, and the types of what it makes are noted (`known_values`).

So branches are chosen, loops unrolled, and shapes computed on the way: a folded Shape settles the
shape that the next Reshape takes, and so on, in one walk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping

from onnx import NodeProto, TypeProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.expansion import rewriters  # noqa: F401  (registers them)
from tvm_hetero.frontends.onnx.expansion.folding import empty_results, empty_tensor, fold_node
from tvm_hetero.frontends.onnx.expansion.functions import function_body
from tvm_hetero.frontends.onnx.expansion.handed_over import tensors_for_outputs
from tvm_hetero.frontends.onnx.expansion.known_values import KnownValues
from tvm_hetero.frontends.onnx.expansion.made_of_nothing import made_of_nothing
from tvm_hetero.frontends.onnx.expansion.registry import INTERNAL, find_rewriter
from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting
from tvm_hetero.frontends.onnx.expansion.splicing import splice
from tvm_hetero.frontends.onnx.model.attribute_table import refused_attribute
from tvm_hetero.frontends.onnx.model.dependence import how_to_fix
from tvm_hetero.frontends.onnx.model.limits import DEFAULT_LIMITS, OnnxLimits
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, element_type
from tvm_hetero.frontends.onnx.model.native_calls import reason_of
from tvm_hetero.frontends.onnx.model.refusals import ANOTHER_FORM, fault_text, refuse_all
from tvm_hetero.frontends.onnx.model.tensors import byte_size, check_total, describe
from tvm_hetero.processes.step_notes import note_step
from tvm_hetero.util.untrusted_names import printable

_STANDARD = ("", "ai.onnx")


def expand_graph(
    graph: OnnxGraph,
    taken: Collection[str] | None = None,
    limits: OnnxLimits = DEFAULT_LIMITS,
) -> Mapping[str, TypeProto]:
    """Fold, rewrite and inline, in place.

    Parameters
    ----------
    graph : OnnxGraph
        With static inputs.
    taken : collection of str, optional
        Names of standard operators that the importer takes as they are.  All others must be
        rewritten away.  None: fold only, and keep every node that is not constant.
    limits : OnnxLimits
        Caps on nodes and constants.

    Returns
    -------
    mapping of str to TypeProto
        What is known of the types of inputs and of what nodes make.

    Raises
    ------
    ModelError
        Nodes that cannot be taken, each with what is wrong with it; or a node is invalid, or the
        graph grows past the limits.
    """
    expansion = _Expansion(graph, taken, limits)
    expansion.run()
    return expansion.values.types


class _Expansion:
    def __init__(self, graph: OnnxGraph, taken: Collection[str] | None, limits: OnnxLimits) -> None:
        self.graph, self.taken, self.limits = graph, taken, limits
        self.values = KnownValues(graph)
        self.kept: list[NodeProto] = []
        self.refusals: list[str] = []
        self.cause: Exception | None = None
        # Values that no one can make, since their node is refused: what reads them is not judged.
        self.unknown: set[str] = set()

    def run(self) -> None:
        empty = self._know_empty_inputs()
        work = deque((node, describe(node, i)) for i, node in enumerate(self.graph.nodes))
        met = 0
        while work:
            node, origin = work.popleft()
            met += 1
            if met > self.graph.most_met:
                raise ModelError(
                    f"{origin} makes the model grow past {self.limits.nodes} nodes: a loop of so "
                    "many steps cannot be unrolled. Export the model for fewer steps."
                )
            if self.unknown.intersection(node.input):
                self.unknown.update(filter(None, node.output))
                continue
            try:
                replacement = self._meet(node, origin)
            except ModelError as error:
                self._refuse(node, str(error))
                continue
            except MemoryError:
                self._refuse(
                    node, f"{origin} needs more memory than a model may take. {ANOTHER_FORM}"
                )
            except Exception as error:
                self._refuse(node, fault_text(origin, error))
                self.cause = error
                continue
            work.extendleft((each, origin) for each in reversed(replacement))
        refuse_all([*self.refusals, *self._choices()], self.graph.opset, self.cause)
        self.graph.nodes = self.kept
        self._forget_empty_inputs(empty)
        if self.taken is not None:
            tensors_for_outputs(self.graph, self.values)
        self.graph.sweep()
        self._check_constants()

    def _choices(self) -> list[str]:
        """Say of each choice by an input, if something is refused, that it can be decided.

        The refused node may stand in the branch that is not wanted.
        """
        found = {
            f"{origin} takes in both branches, since its condition is not known. "
            f"{how_to_fix([condition], self.values.makers, self.graph.inputs)}"
            for condition, origin in self.values.choices.items()
        }
        return sorted(text for text in found if "--value" in text) if self.refusals else []

    def _know_empty_inputs(self) -> set[str]:
        """Note that of an empty input all is known; returns the names of such inputs."""
        found = set()
        for value in self.graph.inputs:
            empty = empty_tensor(value.type) if self.taken is not None else None
            if empty is not None:
                self.graph.constants[value.name] = empty
                found.add(value.name)
        return found

    def _forget_empty_inputs(self, names: set[str]) -> None:
        """What still reads an empty input reads a constant; the input itself is one again."""
        copies = {name: self.graph.fresh(f"{name}_empty") for name in names}
        for name, copy in copies.items():
            self.graph.constants[copy] = self.graph.constants.pop(name)
        self.graph.rename_uses(copies)

    def _meet(self, node: NodeProto, origin: str) -> list[NodeProto]:
        """Take one node; returns the nodes to be met in its place."""
        note_step("the expansion of nodes", origin)
        if node.domain in _STANDARD:
            folded = fold_node(self.graph, self.values, node, origin, self.limits)
            if folded is not None:
                self.graph.constants.update(folded)
                return []
        if self.taken is not None:
            replacement = self._replace(node, origin)
            if replacement is not None:
                return replacement
        self._keep(node, origin)
        return []

    def _replace(self, node: NodeProto, origin: str) -> list[NodeProto] | None:
        """Return the nodes that stand for a node, None if it is to be kept."""
        problem = refused_attribute(node) if node.domain in _STANDARD else None
        if problem is not None:
            raise ModelError(f"{origin} {problem}")
        rewriter = find_rewriter(node.domain, node.op_type)
        if rewriter is not None:
            rewriting = Rewriting(node, self.graph, self.values, origin)
            if rewriter(rewriting):
                return rewriting.nodes
        if node.domain in _STANDARD and self.taken is not None and node.op_type in self.taken:
            return None
        body = function_body(node, self.graph, self.values)
        if body is None:
            raise ModelError(f"{origin} {_unknown_operator(node, self.graph.opset)}")
        return splice(body, node.input, node.output, self.graph, node.name or node.op_type)

    def _keep(self, node: NodeProto, origin: str) -> None:
        if node.domain in _STANDARD:
            self._infer(node, origin)
        # What makes nothing is a constant by now.
        if not self.graph.constants.keys() & set(node.output):
            self.kept.append(node)
            self.values.makers.update((name, node) for name in node.output if name)
            self.graph.origins.update((name, origin) for name in node.output if name)

    def _infer(self, node: NodeProto, origin: str) -> None:
        try:
            types = self.values.infer(node)
        except Exception as error:
            raise ModelError(
                f"{origin} does not fit its operands: {reason_of(error, 300)} Where shapes were "
                "given for the inputs, leave them out, and some that fit are named; else the file "
                "is damaged."
            ) from None
        for name, found in types.items():
            self.values.state(name, found)
        if self.taken is not None:
            empty = empty_results(types, node)
            found = (
                made_of_nothing(self.graph, self.values, node, origin) if empty is None else empty
            )
            self.graph.constants.update(found)

    def _refuse(self, node: NodeProto, why: str) -> None:
        if why not in self.refusals:
            self.refusals.append(why)
        self.unknown.update(filter(None, node.output))

    def _check_constants(self) -> None:
        check_total(
            (
                byte_size(
                    element_type(value), self.graph.size(name), f"constant '{printable(name)}'"
                )
                for name, value in self.graph.constants.items()
            ),
            self.limits,
        )


def _unknown_operator(node: NodeProto, opset: int) -> str:
    operator = printable(node.op_type)
    if node.domain == INTERNAL:
        return f"is of the domain '{INTERNAL}', which no file may use."
    if node.domain.startswith("ai.onnx.ml"):
        return (
            "is of the domain 'ai.onnx.ml': trees, linear models and the like of classical machine "
            "learning. tvm_hetero divides neural networks; ONNX Runtime runs this model."
        )
    if node.domain.startswith("ai.onnx.preview.training"):
        return "is a step of training. Take the model for inference."
    if node.domain not in _STANDARD:
        return (
            f"is of the domain '{printable(node.domain)}', of which tvm_hetero has no {operator}. "
            + ANOTHER_FORM
        )
    return f"is not supported: there is no kernel for {operator} (opset {opset}). {ANOTHER_FORM}"
