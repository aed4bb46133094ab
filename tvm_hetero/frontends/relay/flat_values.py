"""What flattening makes of expressions: values without functions around them.

Value    an `Input`, a `Constant`, a `FlatStep` (what an operator makes), an `FlatItem` of one that
         makes a tuple, a `Pack` of values, or a `Closure` (a function not called yet)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core import program as relay
from tvm_hetero.frontends.relay.core.program import Constant, RelayDevice, Var

_MOST_LEAVES = 10_000


@dataclass(eq=False)
class Input:
    """A parameter of ``main``."""

    var: Var


@dataclass(eq=False)
class FlatStep:
    """One operator: what it is called with, and where in the program it stands."""

    operator: str
    args: list[Value]
    attributes: Mapping[str, Any]
    type: relay.Type | None
    where: str
    device: RelayDevice | None = None


@dataclass(eq=False)
class FlatItem:
    """One output of an operator that makes several."""

    step: FlatStep
    index: int


@dataclass(eq=False)
class Pack:
    """Several values as one."""

    values: list[Value]


@dataclass(eq=False)
class Closure:
    """A function, and the scope in which it was written."""

    function: relay.Function
    scope: Scope


Value: TypeAlias = Input | Constant | FlatStep | FlatItem | Pack | Closure


@dataclass
class Scope:
    """What variables and expressions are in one call of a function."""

    outer: Scope | None = None
    values: dict[int, Value] = field(default_factory=dict)
    depth: int = 0

    def find(self, key: int) -> Value | None:
        """The value of an expression here or in a scope around."""
        scope: Scope | None = self
        while scope is not None:
            if key in scope.values:
                return scope.values[key]
            scope = scope.outer
        return None


def leaves(value: Value, most: int = _MOST_LEAVES) -> list[Value]:
    """What a value consists of, tuples within tuples taken apart, in order.

    Raises
    ------
    ModelError
        There are more than `most`: thirty tuples, each twice the one before, are a billion.
    """
    found: list[Value] = []
    stack = [value]
    for _ in range(2 * most):
        if not stack:
            return found
        each = stack.pop()
        if isinstance(each, Pack):
            stack.extend(reversed(each.values))
        else:
            found.append(each)
    raise ModelError(f"a tuple of more than {most} values")
