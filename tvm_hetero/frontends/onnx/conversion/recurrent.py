"""LSTM, GRU and RNN: the products and kernels of `tvm_hetero.kernels.recurrent`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.onnx.conversion.conversion import Conversion
from tvm_hetero.frontends.onnx.conversion.registry import converts
from tvm_hetero.kernels.recurrent.emit import gru, lstm, rnn
from tvm_hetero.kernels.recurrent.node import RecurrentAttributes, RecurrentOperands

if TYPE_CHECKING:
    from tvm import relax

_EMIT = {"LSTM": lstm, "GRU": gru, "RNN": rnn}
_OPERANDS = ("x", "w", "r", "b", "sequence_lens", "initial_h", "initial_c", "p")
_LISTS = ("activations", "activation_alpha", "activation_beta")
_NUMBERS = ("direction", "hidden_size", "layout", "clip")
_OF_ONE = {"LSTM": ("input_forget",), "GRU": ("linear_before_reset",), "RNN": ()}
# Before opset 7: whether Y is asked for, which its name among the outputs says too.
_SAYS_NOTHING = ("output_sequence",)


@converts("LSTM", "GRU", "RNN")
def convert_recurrent(c: Conversion) -> tuple[relax.Expr, ...]:
    """Y and the last states of a recurrent node: for each direction tasks of its own."""
    attributes = _attributes(c)
    for position, operand in enumerate(c.operands):
        if operand is not None or position < 3:
            c.dims(position)
    given = dict(zip(_OPERANDS, c.operands, strict=False))
    try:
        return _EMIT[c.node.op_type](c.builder, RecurrentOperands(**given), attributes)
    except ModelError as error:
        c.refuse(f"is no node of ONNX that is computed here: {error}")


def _attributes(c: Conversion) -> RecurrentAttributes:
    own = _OF_ONE[c.node.op_type]
    known = {*_LISTS, *_NUMBERS, *own, *_SAYS_NOTHING}
    names = [attribute.name for attribute in c.node.attribute]
    unknown = sorted(set(names) - known)
    if unknown:
        c.refuse(f"has the attribute {unknown[0]!r}; expected one of {', '.join(sorted(known))}")
    values = {name: _value(c, name) for name in names if name not in _SAYS_NOTHING}
    return RecurrentAttributes(
        **values,
        quantized_state=c.has_quantized_state,
        state_factors=c.state_factors,
        input_factors=c.input_factors,
    )


def _value(c: Conversion, name: str) -> Any:
    value = c.attribute(name)
    if name == "activations":
        return [each.decode(errors="replace") for each in value]
    return list(value) if name in _LISTS else value
