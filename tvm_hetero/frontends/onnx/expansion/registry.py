"""Which function rewrites which operator.

A rewriter is called by the walk (`walk`) for each node of its operator.  It sees what is known of
the node's operands, adds the nodes that compute the same (`Rewriting.add`), and returns True; or it
returns False, and the node stays as it is; or it refuses the node (`Rewriting.refuse`).  The nodes
that it adds are walked in their turn: they may be folded, or rewritten by another rewriter.

    @rewrites("CastLike")
    def rewrite_cast_like(r: Rewriting) -> bool:
        r.add("Cast", [r.inputs[0]], r.outputs, to=r.element_type(r.inputs[1]))
        return True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvm_hetero.frontends.onnx.expansion.rewriting import Rewriting

    Rewriter = Callable[[Rewriting], bool]

MICROSOFT = "com.microsoft"
"""Domain of the operators that ONNX Runtime and Optimum write."""

INTERNAL = "tvm_hetero.internal"
"""Domain of what a rewriter leaves for itself or another one; no file may name it."""

_REWRITERS: dict[tuple[str, str], Rewriter] = {}


def rewrites(*operators: str, domain: str = "") -> Callable[[Rewriter], Rewriter]:
    """Register a function as the rewriter of these operators.

    Parameters
    ----------
    *operators : str
        Names of operators.
    domain : str
        Their domain; the standard one if not given.

    Raises
    ------
    ValueError
        One of them has a rewriter already.
    """

    def register(function: Rewriter) -> Rewriter:
        for operator in operators:
            if (domain, operator) in _REWRITERS:
                raise ValueError(f"{domain or 'ai.onnx'}::{operator} has two rewriters")
            _REWRITERS[domain, operator] = function
        return function

    return register


def find_rewriter(domain: str, operator: str) -> Rewriter | None:
    """Return the rewriter of an operator, None if it has none."""
    return _REWRITERS.get(("" if domain == "ai.onnx" else domain, operator))
