"""A node of ONNX's LSTM, GRU or RNN, and what each of its directions computes.

What does not fit together, and what no kernel computes, is refused by its name in ONNX.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.recurrent.activations import CellActivation, activations_of
from tvm_hetero.kernels.recurrent.operands import extents_of
from tvm_hetero.kernels.recurrent.recurrence import (
    FUNCTIONS,
    GATES,
    GRU,
    LSTM,
    RNN,
    Recurrence,
    require_valid,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

FORWARD, REVERSE, BIDIRECTIONAL = "forward", "reverse", "bidirectional"
_DIRECTIONS = {FORWARD: (False,), REVERSE: (True,), BIDIRECTIONAL: (False, True)}
_DEFAULTS = {
    LSTM: ("Sigmoid", "Tanh", "Tanh"), GRU: ("Sigmoid", "Tanh"), RNN: ("Tanh",),
}  # fmt: skip


@dataclass(frozen=True)
class RecurrentOperands:
    """The inputs of a node, as ONNX names them; None for those that are not given.

    Attributes
    ----------
    x
        ``[T, B, I]``, or ``[B, T, I]`` with layout 1.
    w, r
        ``[D, gates H, I]`` and ``[D, gates H, H]``, for D directions.
    b
        ``[D, 2 gates H]``: first those of the input, then those of the state.
    sequence_lens
        ``[B]``, whole numbers from 0 to T.
    initial_h, initial_c
        ``[D, B, H]``, or ``[B, D, H]`` with layout 1.
    p
        ``[D, 3 H]``: for the gates i, o, f of an LSTM.
    """

    x: relax.Expr
    w: relax.Expr
    r: relax.Expr
    b: relax.Expr | None = None
    sequence_lens: relax.Expr | None = None
    initial_h: relax.Expr | None = None
    initial_c: relax.Expr | None = None
    p: relax.Expr | None = None

    def items(self) -> list[tuple[str, relax.Expr]]:
        """Those that are given, by name."""
        return [(name, value) for name, value in vars(self).items() if value is not None]


@dataclass(frozen=True)
class RecurrentAttributes:
    """The attributes of a node, as ONNX names them, with its defaults; empty lists for none.

    ``quantized_state`` is our own, of what ONNX Runtime's DynamicQuantizeLSTM is made
    (`recurrence.Recurrence.quantized`); ``state_factors``, ``[D, gates H]``, says that R is whole
    numbers of 8 bits, each row of which is to be multiplied by one of them; ``input_factors`` says
    so of W.
    """

    direction: str = FORWARD
    hidden_size: int | None = None
    layout: int = 0
    activations: Sequence[str] = ()
    activation_alpha: Sequence[float] = ()
    activation_beta: Sequence[float] = ()
    clip: float | None = None
    input_forget: bool = False
    linear_before_reset: bool = False
    quantized_state: bool = False
    state_factors: NDArray[Any] | None = None
    input_factors: NDArray[Any] | None = None

    def of_direction(self, d: int) -> RecurrentFactors:
        """Both kinds of factors, of a direction."""
        both = (self.input_factors, self.state_factors)
        return RecurrentFactors(*(None if each is None else each[d] for each in both))


@dataclass(frozen=True)
class RecurrentFactors:
    """By what rows of W and R are multiplied, which are whole numbers then; None for numbers."""

    input: NDArray[Any] | None = None
    state: NDArray[Any] | None = None


def computed_in(o: RecurrentOperands) -> str:
    """The type that a node is computed in: float32 for numbers of 16 bits."""
    dtype = str(o.x.ty.dtype)
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def recurrences_of(
    cell: str, o: RecurrentOperands, attributes: RecurrentAttributes
) -> list[Recurrence]:
    """What each direction of a node with layout 0 computes.

    Raises
    ------
    ModelError
        A shape, type or attribute is not as ONNX has it, or is one that no kernel computes.
    """
    if attributes.direction not in _DIRECTIONS:
        raise ModelError(
            f"direction {attributes.direction!r}: expected one of {', '.join(_DIRECTIONS)}"
        )
    directions = _DIRECTIONS[attributes.direction]
    functions = _functions(cell, attributes, len(directions))
    steps, batch, hidden = _sizes(cell, o, attributes, len(directions))
    each = FUNCTIONS[cell]
    found = [
        Recurrence(
            cell, steps, batch, hidden, functions[d * each : (d + 1) * each], reverse,
            clip=float(attributes.clip or 0.0),
            coupled=cell == LSTM and bool(attributes.input_forget),
            reset_after=cell == GRU and bool(attributes.linear_before_reset),
            quantized=bool(attributes.quantized_state),
            in_bytes=attributes.state_factors is not None,
            initial_h=o.initial_h is not None,
            initial_c=o.initial_c is not None,
            lengths=o.sequence_lens is not None,
            peepholes=o.p is not None,
            dtype=computed_in(o),
        )
        for d, reverse in enumerate(directions)
    ]  # fmt: skip
    for r in found:
        require_valid(r)
    return found


def _functions(
    cell: str, attributes: RecurrentAttributes, directions: int
) -> tuple[CellActivation, ...]:
    names = list(attributes.activations) or list(_DEFAULTS[cell]) * directions
    if len(names) != FUNCTIONS[cell] * directions:
        raise ModelError(
            f"activations {', '.join(names)}: expected {FUNCTIONS[cell]} for each direction of "
            f"{attributes.direction}"
        )
    return activations_of(names, attributes.activation_alpha, attributes.activation_beta)


def _sizes(
    cell: str, o: RecurrentOperands, attributes: RecurrentAttributes, directions: int
) -> tuple[int, int, int]:
    """T, B and H; refuses operands of other shapes and types."""
    if len(extents_of(o.x)) != 3 or len(extents_of(o.r)) != 3:
        raise ModelError(
            f"X of shape {extents_of(o.x)} and R of shape {extents_of(o.r)}: expected three "
            "dimensions of each"
        )
    steps, batch, width = extents_of(o.x)
    hidden, gates = extents_of(o.r)[2], GATES[cell]
    if attributes.hidden_size not in (None, hidden):
        raise ModelError(f"hidden_size {attributes.hidden_size}: R is for {hidden} units")
    state = [directions, batch, hidden]
    expected = {
        "x": [steps, batch, width],
        "w": [directions, gates * hidden, width],
        "r": [directions, gates * hidden, hidden],
        "b": [directions, 2 * gates * hidden],
        "sequence_lens": [batch],
        "initial_h": state,
        **({"initial_c": state, "p": [directions, 3 * hidden]} if cell == LSTM else {}),
    }
    for name, value in o.items():
        _require(cell, name, value, expected, str(o.x.ty.dtype))
    return steps, batch, hidden


def _require(
    cell: str, name: str, value: relax.Expr, expected: dict[str, list[int]], dtype: str
) -> None:
    if name not in expected:
        raise ModelError(f"{cell} with {name}: it has no such input")
    kinds = ("int32", "int64") if name == "sequence_lens" else (dtype,)
    shape, kind = extents_of(value), str(value.ty.dtype)
    if shape != expected[name] or kind not in kinds:
        raise ModelError(
            f"{cell} with {name} of {kind}{shape}: expected {' or '.join(kinds)}{expected[name]}"
        )
