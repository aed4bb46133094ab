"""A Relay program as plain data: what both readers make and the importer takes.

Nothing here knows TVM. Expressions are compared by identity, as in Relay: an expression that is
used twice is one object. All walks over them are loops, for programs are thousands of calls deep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class RelayTensorType:
    """A tensor's type. A dimension that is not known is None."""

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        dims = ", ".join("?" if d is None else str(d) for d in self.shape)
        return f"Tensor[({dims}), {self.dtype}]"

    def holds(self, other: RelayTensorType) -> bool:
        """Whether a tensor of type `other` is of this type, whose dimensions may be open."""
        return (
            len(self.shape) == len(other.shape)
            and all(
                n is None or m in (None, n) for n, m in zip(self.shape, other.shape, strict=True)
            )
            and (not self.dtype or self.dtype == other.dtype)
        )

    @property
    def elements(self) -> int:
        """The number of elements; 0 where a dimension is not known."""
        return math.prod(d or 0 for d in self.shape)


@dataclass(frozen=True)
class TupleType:
    """The type of a tuple."""

    fields: tuple[Type | None, ...]

    def __str__(self) -> str:
        return f"({', '.join('?' if f is None else str(f) for f in self.fields)})"


@dataclass(frozen=True)
class FunctionType:
    """The type of a function; what it takes and gives is in the function itself."""

    def __str__(self) -> str:
        return "fn"


Type: TypeAlias = RelayTensorType | TupleType | FunctionType


@dataclass(frozen=True)
class RelayDevice:
    """Where an annotation wants something: a DLPack device type, and which of them (-1: any)."""

    kind: int
    index: int = -1


@dataclass(eq=False)
class Var:
    """A parameter, or what a ``let`` binds."""

    name: str
    type: Type | None = None
    device: RelayDevice | None = None


@dataclass(eq=False)
class Constant:
    """A value in the program."""

    value: NDArray[Any]


@dataclass(frozen=True)
class Operator:
    """A primitive operator, by name."""

    name: str


@dataclass(frozen=True)
class GlobalName:
    """A function of the module, by name."""

    name: str


@dataclass(eq=False)
class RelayCall:
    """A call of an operator, a global function, or a function value."""

    callee: Operator | GlobalName | Expr
    args: list[Expr]
    attributes: Mapping[str, Any]
    type: Type | None = None
    where: str = ""


@dataclass(eq=False)
class Tuple:
    """Several values as one."""

    fields: list[Expr]


@dataclass(eq=False)
class ProgramItem:
    """One field of a tuple."""

    tuple: Expr
    index: int
    where: str = ""


@dataclass(eq=False)
class Let:
    """``let var = value; body``."""

    var: Var
    value: Expr
    body: Expr


@dataclass(eq=False)
class Function:
    """A function; `attributes` are what passes of the old TVM noted about it."""

    params: list[Var]
    body: Expr
    result: Type | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    where: str = ""


@dataclass(eq=False)
class Unsupported:
    """An expression of Relay that has no place in a graph of fixed operators, by name."""

    name: str
    where: str = ""


Expr: TypeAlias = (
    Var
    | Constant
    | Operator
    | GlobalName
    | RelayCall
    | Tuple
    | ProgramItem
    | Let
    | Function
    | Unsupported
)


@dataclass
class RelayProgram:
    """A module: functions by name; ``main`` is what runs."""

    functions: dict[str, Function]
    version: str = ""
