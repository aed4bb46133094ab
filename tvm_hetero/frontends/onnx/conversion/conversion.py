"""What a converter sees of a node, and of its operands in Relax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from onnx import NodeProto

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.conversion.counted import CountedAxis, Counts
from tvm_hetero.frontends.onnx.model.dependence import how_to_fix
from tvm_hetero.frontends.onnx.model.mutable_graph import OnnxGraph, attribute
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm import relax, tirx


class Conversion:
    """One node under conversion.

    Attributes
    ----------
    node : NodeProto
        The node.
    builder : relax.BlockBuilder
        Of the function that is being made.
    operands : list of relax.Expr or None
        The node's inputs; None for an optional one that is not there.
    """

    def __init__(
        self,
        node: NodeProto,
        graph: OnnxGraph,
        builder: relax.BlockBuilder,
        operands: list[relax.Expr | None],
        counts: Counts,
    ) -> None:
        self.node, self.builder, self.operands = node, builder, operands
        self._graph, self._counts = graph, counts

    @property
    def opset(self) -> int:
        """Version of the default operator set."""
        return self._graph.opset

    def operand(self, position: int) -> relax.Expr:
        """Return an operand that must be there."""
        found = self.operands[position] if position < len(self.operands) else None
        if found is None:
            self.refuse(f"has no operand {position}")
        return found

    def optional(self, position: int) -> relax.Expr | None:
        """Return an operand, None where it is not there."""
        return self.operands[position] if position < len(self.operands) else None

    def wants(self, position: int) -> bool:
        """Whether the node names an output at this position."""
        return position < len(self.node.output) and bool(self.node.output[position])

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute; text as str."""
        value = attribute(self.node, name, default)
        return value.decode(errors="replace") if isinstance(value, bytes) else value

    def choice_names(self) -> tuple[str, ...]:
        """Return the names by which users know a choice that the node is, if it is one of an If."""
        return self._graph.choices.get(self.node.output[0], ())

    def flag(self, name: str, default: int = 0) -> bool:
        """Return an attribute that is 0 or 1."""
        return bool(self.attribute(name, default))

    def dims(self, position: int, rank: int | None = None) -> tuple[int, ...]:
        """Return the dimensions of an operand; refuses where they are not all known.

        So it does where they are not `rank` in number: onnx's inference looks at few of them.
        """
        from tvm import relax, tirx

        shape = getattr(self.operand(position).ty, "shape", None)
        dims = list(shape.values) if isinstance(shape, relax.ShapeExpr) else [None]
        if not all(isinstance(d, tirx.IntImm) for d in dims):
            self.refuse(f"reads operand {position}, whose shape is not known before it runs")
        found = tuple(int(d) for d in dims if d is not None)
        if rank is not None and len(found) != rank:
            self.refuse(f"reads operand {position} of shape {found}; expected {rank} dimensions")
        return found

    def dtype(self, position: int) -> str:
        """Return the element type of an operand."""
        return str(self.operand(position).ty.dtype)

    def constant(self, position: int) -> np.ndarray[Any, Any] | None:
        """Return the data of a constant operand, None where it is none."""
        name = self.node.input[position] if position < len(self.node.input) else ""
        return self._graph.array(name) if name in self._graph.constants else None

    def constant_of(self, position: int, what: str) -> np.ndarray[Any, Any]:
        """Return the data of an operand that must be constant; refuses what is not."""
        found = self.constant(position)
        if found is None:
            name = self.node.input[position] if position < len(self.node.input) else ""
            self.refuse(
                f"takes its {what} from '{printable(name)}', which is known only when it runs. "
                f"{how_to_fix([name], self._graph.makers(), self._graph.inputs)}"
            )
        return found

    def whole_number(self, position: int, what: str) -> int:
        """Return the one number that a constant operand is; refuses as :meth:`constant_of`."""
        found = self.constant_of(position, what)
        if found.size != 1 or not np.isfinite(found).all():
            self.refuse(f"takes its {what} from {found.dtype} {found.shape}, not from one number")
        return int(found.item())

    def count(self, position: int, axis: int, number: relax.Expr) -> None:
        """State that of an output's axis only so much counts as a number says (`counted`)."""
        name = self.node.output[position]
        self._counts.axes[name] = CountedAxis(axis, self.node.output[0])
        self._counts.numbers[self.node.output[0]] = number

    def is_bounded(self, position: int) -> bool:
        """Whether an operand lies within the range of the type that the node casts it to."""
        return self.node.input[position] in self._graph.bounded

    @property
    def has_quantized_state(self) -> bool:
        """Whether a recurrent node multiplies its state in 256 levels of its range."""
        return not self._graph.quantized_states.isdisjoint(filter(None, self.node.output))

    @property
    def state_factors(self) -> np.ndarray | None:
        """By what the rows of R are multiplied, which is whole numbers then; None for nothing."""
        return self._noted(self._graph.state_factors)

    @property
    def input_factors(self) -> np.ndarray | None:
        """By what the rows of W are multiplied."""
        return self._noted(self._graph.input_factors)

    def _noted(self, notes: dict[str, np.ndarray]) -> np.ndarray | None:
        return next((notes[name] for name in self.node.output if name in notes), None)

    def emit(self, value: relax.Expr) -> relax.Var:
        """Bind an expression to a variable; returns it."""
        return self.builder.emit(value)

    def emit_te(self, function: Callable[..., Any], *operands: Any, **attributes: Any) -> relax.Var:
        """Bind a call of a kernel that is written as a tensor expression (TVM's `te`)."""
        attributes.setdefault("primfunc_name_hint", self.node.op_type.lower())
        return self.builder.emit_te(function, *operands, **attributes)

    def emit_kernel(
        self,
        kernel: tirx.PrimFunc,
        operands: Sequence[relax.Expr],
        made: Sequence[tuple[Sequence[int], str]],
    ) -> list[relax.Var]:
        """Bind a call of a kernel that is written out.

        Parameters
        ----------
        kernel : tirx.PrimFunc
            Its parameters are the operands, then what it makes.
        operands : sequence of relax.Expr
            What it reads.
        made : sequence of (sequence of int, str)
            Shape and element type of each tensor that it makes.

        Returns
        -------
        list of relax.Var
            Those tensors.
        """
        from tvm import relax

        variable = self.builder.add_func(kernel, self.node.op_type.lower())
        types = [relax.TensorType(list(shape), dtype) for shape, dtype in made]
        called = self.emit(relax.call_tir(variable, list(operands), types))
        if len(types) == 1:
            return [called]
        return [self.emit(relax.TupleGetItem(called, i)) for i in range(len(types))]

    def cast(self, value: relax.Expr, dtype: str) -> relax.Expr:
        """Bind a value in another element type, if it is of another one."""
        from tvm import relax

        return value if str(value.ty.dtype) == dtype else self.emit(relax.op.astype(value, dtype))

    def reshaped(self, value: relax.Expr, shape: Sequence[int]) -> relax.Var:
        """Bind a view of a value in another shape."""
        from tvm import relax

        return self.emit(relax.op.reshape(value, list(shape)))

    def refuse(self, why: str) -> NoReturn:
        """Refuse the node; `why` is the rest of a sentence of which it is the subject."""
        end = "" if why.endswith(".") else "."
        raise ModelError(f"{self._graph.describe(self.node)} {why}{end}")
