"""Which function converts which operator into Relax.

A converter is called for each node of its operator that is left after expansion.  It returns the
Relax expressions of the node's outputs (one, or a sequence), or None, and the node goes to TVM's
importer as if there were no converter; or it refuses the node (`Conversion.refuse`).

    @converts("CumSum")
    def convert_cumsum(c: Conversion) -> relax.Expr:
        axis = int(c.constant_of(1, "axis"))
        return c.emit(relax.op.cumsum(c.operand(0), axis, exclusive=c.flag("exclusive")))

Before a converter, think of a rewriter (`expansion.registry`): what can be said in ONNX is tested
against any ONNX runtime, and folded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm import relax

    from tvm_hetero.frontends.onnx.conversion.conversion import Conversion

    Converter = Callable[[Conversion], relax.Expr | Sequence[relax.Expr] | None]

# Under these names TVM implements contributed operators of ONNX Runtime, whose operands
# differ from the standard operator of the same name.
_OTHER_MEANING = frozenset({"Attention"})

_CONVERTERS: dict[str, Converter] = {}


def converts(*operators: str) -> Callable[[Converter], Converter]:
    """Register a function as the converter of these standard operators.

    Raises
    ------
    ValueError
        One of them has a converter already.
    """

    def register(function: Converter) -> Converter:
        for operator in operators:
            if operator in _CONVERTERS:
                raise ValueError(f"{operator} has two converters")
            _CONVERTERS[operator] = function
        return function

    return register


def find_converter(operator: str) -> Converter | None:
    """Return our converter of an operator, None if it has none."""
    return _CONVERTERS.get(operator)


def converted_operators() -> frozenset[str]:
    """Return the names of the standard operators that are converted, by us or by TVM."""
    return frozenset(_CONVERTERS) | imported_by_tvm()


@functools.cache
def imported_by_tvm() -> frozenset[str]:
    """Return the names of the standard operators that TVM imports, asked of TVM itself."""
    from tvm.relax.frontend.onnx import onnx_frontend

    return frozenset(onnx_frontend._get_convert_map()) - _OTHER_MEANING | {"Constant"}
