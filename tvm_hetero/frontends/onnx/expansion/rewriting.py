"""What a rewriter sees of a node and of what is known, and where it puts other nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, TypeProto, helper

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.expansion.known_values import KnownValues
from tvm_hetero.frontends.onnx.expansion.splicing import Body, splice
from tvm_hetero.frontends.onnx.model.dependence import how_to_fix
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.frontends.onnx.model.tensors import describe
from tvm_hetero.util.untrusted_names import printable


class Rewriting:
    """One node under rewriting.

    Attributes
    ----------
    node : NodeProto
        The node; not to be changed.
    nodes : list of NodeProto
        What stands in its place if the rewriter returns True.
    """

    def __init__(
        self, node: NodeProto, graph: OnnxGraph, values: KnownValues, origin: str = ""
    ) -> None:
        self.node = node
        self.nodes: list[NodeProto] = []
        self._graph = graph
        self._values = values
        self._origin = origin or describe(node)

    @property
    def opset(self) -> int:
        """Version of the default operator set, of which the added nodes are."""
        return self._graph.opset

    @property
    def inputs(self) -> list[str]:
        """Names of the operands; an optional one that is not there is ''."""
        return list(self.node.input)

    @property
    def outputs(self) -> list[str]:
        """Names of what the node makes; '' for what no one wants."""
        return list(self.node.output)

    def operand(self, position: int) -> str:
        """Return the name of an operand, '' where it is not there."""
        return self.node.input[position] if position < len(self.node.input) else ""

    def wants(self, position: int) -> bool:
        """Whether the node names an output at this position."""
        return position < len(self.node.output) and bool(self.node.output[position])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute; text as str."""
        value = attribute(self.node, name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    # ------------------------------------------------------------------- what is known

    def dims(self, name: str) -> tuple[int, ...]:
        """Return the dimensions of a value.

        Raises
        ------
        ModelError
            They are not known: they depend on data, or on an operator unknown to onnx.
        """
        known = self._values.known(name)
        if known is None or known.dims is None:
            self.refuse(
                f"reads '{printable(name)}', whose shape is known only when it runs. "
                f"{self.how_to_fix(name)}"
            )
        return known.dims

    def rank(self, name: str) -> int:
        """Return the number of dimensions of a value; refuses as :meth:`dims`."""
        found = self._values.rank(name)
        if found is None:
            self.refuse(f"reads '{printable(name)}', whose rank is not known before it runs")
        return found

    def element_type(self, name: str) -> int:
        """Return the ONNX element type of a value; refuses where it is not known."""
        known = self._values.known(name)
        if known is None or not known.element_type:
            self.refuse(f"reads '{printable(name)}', whose type is not known before it runs")
        return known.element_type

    def infer_graph(self, body: GraphProto, given: Sequence[TypeProto]) -> list[TypeProto]:
        """Return what is known of the types that a nested graph gives if it is `given` such."""
        return self._values.infer_graph(body, given)

    def dtype(self, name: str) -> np.dtype[Any]:
        """Return the NumPy type of a value; refuses where it is not known."""
        return helper.tensor_dtype_to_np_dtype(self.element_type(name))

    def array(self, name: str) -> np.ndarray[Any, Any] | None:
        """Return the data of a constant (not to be written to), None for what is none."""
        return self._graph.array(name) if name in self._graph.constants else None

    def maker(self, name: str) -> NodeProto | None:
        """Return the node that makes a value, those before an ``Identity`` through it.

        None for constants and inputs.
        """
        node = self._values.makers.get(name)
        while node is not None and node.op_type == "Identity":
            node = self._values.makers.get(node.input[0])
        return node

    def is_shaped(self, name: str) -> bool:
        """Whether the dimensions of a value are known."""
        known = self._values.known(name)
        return known is not None and known.dims is not None

    def is_read_once(self, name: str) -> bool:
        """Whether a value is no output of the graph, and one operand of one node at most."""
        readers = sum(list(node.input).count(name) for node in self._graph.nodes)
        return readers <= 1 and name not in self._graph.output_names

    def constant_of(self, position: int, what: str) -> np.ndarray[Any, Any]:
        """Return the data of an operand that must be constant; refuses what is not."""
        found = self.array(self.operand(position))
        if found is None:
            name = self.operand(position)
            self.refuse(
                f"takes its {what} from '{printable(name)}', which is known only when it runs. "
                f"{self.how_to_fix(name)}"
            )
        return found

    def whole_number(self, position: int, what: str) -> int:
        """Return the one number that a constant operand is; refuses as :meth:`constant_of`."""
        found = self.constant_of(position, what)
        if found.size != 1 or not np.isfinite(found).all():
            self.refuse(f"takes its {what} from {found.dtype} {found.shape}, not from one number")
        return int(found.item())

    def note_choice(self, condition: str) -> None:
        """Note that both branches of a choice are taken in, since its condition is not known."""
        self._values.choices[condition] = self._origin
        made = list(filter(None, self.outputs))
        names = tuple(dict.fromkeys(filter(None, (self.node.name, condition, *made))))
        self._graph.choices.update(dict.fromkeys(made, names))

    def how_to_fix(self, name: str) -> str:
        """Say what a user can do so that a value becomes known, the inputs behind it by name."""
        return how_to_fix([name], self._values.makers, self._graph.inputs)

    def sequence(self, name: str) -> list[str] | None:
        """Return the names of a sequence's elements, None for what is none."""
        return self._values.sequences.get(name)

    def set_sequence(self, name: str, elements: Sequence[str]) -> None:
        """State of which tensors a sequence is made."""
        self._values.sequences[name] = list(elements)

    def is_nothing(self, name: str) -> bool:
        """Whether a value is an optional that holds nothing."""
        return name in self._values.nothings

    def set_nothing(self, name: str) -> None:
        """State that a value is an optional that holds nothing."""
        self._values.nothings.add(name)

    # -------------------------------------------------------------- what takes its place

    def add(
        self,
        operator: str,
        inputs: Sequence[str],
        outputs: int | Sequence[str] = 1,
        domain: str = "",
        **attributes: Any,
    ) -> str:
        """Add a node; returns the name of its first output.

        Parameters
        ----------
        operator : str
            Of the default set, in the model's opset, unless `domain` says otherwise.
        inputs : sequence of str
            Names of values.
        outputs : int or sequence of str
            How many fresh names to make, or the names: `self.outputs` for the last node.
        domain : str
            The operator's.
        **attributes
            As onnx's `make_node` takes them; those that are None are left out.
        """
        if isinstance(outputs, int):
            outputs = [self.fresh(f"{self._base}_{operator}") for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        node = helper.make_node(operator, inputs, outputs, domain=domain or None, **given)
        node.name = self._graph.fresh(f"{self._base}/{operator}")
        self.nodes.append(node)
        return outputs[0]

    def exact(self, name: str) -> str:
        """State that the last bit of a value counts, and return its name.

        It is rounded to a code next, for example: no factor is moved over the node that makes it.
        """
        self._graph.exact.add(name)
        return name

    def bounded(self, name: str) -> str:
        """State that a value lies within the range of the type that it is cast to; its name."""
        self._graph.bounded.add(name)
        return name

    def quantize_state(
        self,
        names: Sequence[str],
        of_input: np.ndarray[Any, Any] | None = None,
        of_state: np.ndarray[Any, Any] | None = None,
    ) -> None:
        """State that a recurrent node with these results multiplies its state in 256 levels.

        Parameters
        ----------
        names : sequence of str
            Its results.
        of_input, of_state : ndarray, optional
            (direction, gates x hidden): W, or R, is whole numbers of 8 bits, of which each row is
            multiplied by one of these.
        """
        given = list(filter(None, names))
        self._graph.quantized_states.update(given)
        if of_input is not None:
            self._graph.input_factors.update(dict.fromkeys(given, of_input))
        if of_state is not None:
            self._graph.state_factors.update(dict.fromkeys(given, of_state))

    def constant(self, value: object, dtype: Any = None) -> str:
        """Add a constant (`afford` one that shapes decide); returns its name."""
        name = self.fresh(f"{self._base}_constant")
        try:
            array = np.array(value, dtype=dtype)
        except (OverflowError, ValueError):
            self.refuse(
                f"computes with {printable(value, 40)}, which {np.dtype(dtype)} cannot hold"
            )
        self._graph.made.charge(array.nbytes, self._origin)
        self._graph.constants[name] = array
        return name

    @property
    def most_nodes(self) -> int:
        """How many nodes the model may become, those that go again counted."""
        return self._graph.most_met

    def afford_nodes(self, count: int, why: str) -> None:
        """Refuse the node if it would become so many; asked before the first is made."""
        if count > self.most_nodes:
            self.refuse(
                f"{why} would make {count} nodes or more, and there may be {self.most_nodes}; "
                "export the model for fewer steps"
            )

    def afford(self, *dims: int, dtype: Any = np.float64) -> None:
        """Refuse the node if an array of this shape is too large; asked before it is made."""
        size = math.prod(max(0, int(d)) for d in dims) * np.dtype(dtype).itemsize
        self._graph.made.afford(size, self._origin)

    def like(self, value: float, name: str) -> str:
        """Add a scalar constant of the element type of the value `name`; returns its name."""
        return self.constant(value, self.dtype(name))

    def alias(self, source: str, target: str) -> None:
        """Let `target` be what `source` is."""
        self.add("Identity", [source], [target])

    def fresh(self, base: str) -> str:
        """Return a name that no value has."""
        return self._graph.fresh(base)

    def splice(self, body: GraphProto, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        """Add the nodes of a nested graph, applied to `inputs`, which make `outputs`."""
        inner = Body.of_graph(body)
        self.nodes.extend(splice(inner, inputs, outputs, self._graph, self._base))

    def add_tensor(self, tensor: TensorProto) -> str:
        """Add a constant as it lies in the file; returns its name."""
        name = self.fresh(f"{self._base}_constant")
        self._graph.made.charge_tensor(tensor, self._origin)
        copy = TensorProto()
        copy.CopyFrom(tensor)
        copy.name = name
        self._graph.constants[name] = copy
        return name

    def refuse(self, why: str) -> NoReturn:
        """Refuse the node.

        Parameters
        ----------
        why : str
            The rest of a sentence of which the node is the subject.
        """
        raise ModelError(f"{self._origin} {why}{'' if why.endswith('.') else '.'}")

    @property
    def _base(self) -> str:
        return self.node.name or next((o for o in self.node.output if o), self.node.op_type)
