"""What a recurrent kernel computes: one direction of ONNX's LSTM, GRU or RNN.

Notation
    T steps, B sequences, H units. x_t stands for what the input contributes to a gate: W x + biases
    of all steps at once, a product of its own before the kernel. h, c are the state, f, g, k the
    activations, P the peepholes, * is element by element.

    LSTM   i = f(x_t + R h + P c)    gates i, o, f, c in this order
           f = f(x_t + R h + P c), or 1 - i where both are coupled
           c' = f * c + i * g(x_t + R h)
           o = f(x_t + R h + P c')
           h' = o * k(c')
    GRU    z = f(x_t + R h), r = f(x_t + R h)    gates z, r, h
           n = g(x_t + R (r * h))                before the reset is applied to the product, or
           n = g(x_t + r * (R h + b))            after (``linear_before_reset``)
           h' = (1 - z) * n + z * h
    RNN    h' = f(x_t + R h)

What goes into an activation of a gate is clipped to [-clip, clip] if ``clip`` is above 0; c' is not
(ONNX Runtime does not either). A sequence of n < T steps has zeros behind them in Y; its last state
is that after n steps, and zero if n is 0. In reverse it is read from its own last step on.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.recurrent.activations import CellActivation

LSTM, GRU, RNN = "LSTM", "GRU", "RNN"
GATES = {LSTM: 4, GRU: 3, RNN: 1}
FUNCTIONS = {LSTM: 3, GRU: 2, RNN: 1}
_TYPES = ("float32", "float64")
MOST_BYTES = 1 << 15
"""Units of a state in bytes: sums and the zero point's part of them fit in 32 bits."""


@dataclass(frozen=True)
class Recurrence:
    """The parameters of a recurrent kernel.

    Attributes
    ----------
    cell
        ``LSTM``, ``GRU`` or ``RNN``.
    steps, batch, hidden
        T, B and H.
    activations
        f, g and k, as many as the cell has.
    reverse
        From the last step to the first.
    clip
        Of what gates are computed from; 0 for not at all.
    coupled
        LSTM: the forget gate is one minus the input gate.
    reset_after
        GRU: ``linear_before_reset``.
    quantized
        LSTM: what the weights are multiplied by is the state in 256 levels of its range
        (`recurrent.levels`).
    in_bytes
        Then also the weights are: whole numbers of 8 bits, and a factor for each column. Sums are
        of integers.
    initial_h, initial_c, lengths, peepholes
        Whether there is such an input; states are zero and sequences of T steps without.
    dtype
        Of all but the lengths.
    """

    cell: str
    steps: int
    batch: int
    hidden: int
    activations: tuple[CellActivation, ...]
    reverse: bool = False
    clip: float = 0.0
    coupled: bool = False
    reset_after: bool = False
    quantized: bool = False
    in_bytes: bool = False
    initial_h: bool = False
    initial_c: bool = False
    lengths: bool = False
    peepholes: bool = False
    dtype: str = "float32"

    @property
    def gates(self) -> int:
        """How many gates the cell has."""
        return GATES[self.cell]

    @property
    def flops(self) -> float:
        """Operations of all steps: products, and about ten for each value of a function."""
        units = self.steps * self.batch * self.hidden
        return 2.0 * units * self.gates * self.hidden + 10.0 * units * (self.gates + 1)


def require_valid(r: Recurrence) -> None:
    """Refuse what is no recurrence.

    Raises
    ------
    ModelError
        Says what is not as expected.
    """
    if r.cell not in GATES:
        raise ModelError(f"recurrent cell {r.cell!r}: expected one of {', '.join(GATES)}")
    if min(r.steps, r.batch, r.hidden) < 1:
        raise ModelError(
            f"{r.cell} of {r.steps} steps, {r.batch} sequences and {r.hidden} units: expected at "
            "least one of each"
        )
    if len(r.activations) != FUNCTIONS[r.cell]:
        raise ModelError(
            f"{r.cell} with {len(r.activations)} activations a direction: expected "
            f"{FUNCTIONS[r.cell]}"
        )
    if r.dtype not in _TYPES:
        raise ModelError(f"{r.cell} of {r.dtype}: expected one of {', '.join(_TYPES)}")
    if r.quantized and (r.cell != LSTM or r.dtype != "float32"):
        raise ModelError(
            f"{r.cell} of {r.dtype} with a quantized state: expected an LSTM of float32"
        )
    if r.in_bytes and not (r.quantized and r.hidden <= MOST_BYTES):
        raise ModelError(
            f"weights in bytes for {r.hidden} units: expected a quantized state of at most "
            f"{MOST_BYTES}"
        )
    if not r.clip >= 0:
        raise ModelError(f"{r.cell} with clip {r.clip}: expected a number that is not negative")


def to_text(r: Recurrence) -> str:
    """The parameters as JSON, for the attribute of the kernel."""
    return json.dumps(asdict(r))


def from_text(text: str) -> Recurrence:
    """What `to_text` wrote."""
    fields = json.loads(text)
    functions = tuple(CellActivation(**each) for each in fields.pop("activations"))
    return Recurrence(activations=functions, **fields)
