"""What the rule of an operator may use: arguments, attributes by type, and the builder.

Attributes are honoured or refused: a rule reads those that it honours, each as the type that it
must have, and what is left over when it is done is refused by name (`Site.finish`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm
from numpy.typing import NDArray
from tvm import relax
from tvm.ir import GenericConst

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.arrays import dtype_of
from tvm_hetero.frontends.relay.core.program import RelayTensorType, Type
from tvm_hetero.util.untrusted_names import printable

Result: TypeAlias = "relax.Expr | list[relax.Expr]"
Rule: TypeAlias = Callable[["Site"], Result]

_MISSING = object()
# Values of a constant that an operator here may make; what is larger must come with the file.
LARGEST_CONSTANT = 1 << 24


def constant(value: NDArray[Any]) -> relax.Expr:
    """A constant of Relax."""
    return relax.const(tvm.runtime.tensor(np.ascontiguousarray(value).reshape(value.shape)))


def shape_of(expr: relax.Expr) -> list[int]:
    """The static shape of an emitted expression."""
    return [int(extent) for extent in expr.ty.shape]


def dtype_name(expr: relax.Expr) -> str:
    """The element type of an emitted expression."""
    return str(expr.ty.dtype)


class Site:
    """One operator of the program, where it is called."""

    def __init__(
        self,
        builder: relax.BlockBuilder,
        operator: str,
        args: Sequence[relax.Expr | list[relax.Expr]],
        attributes: Mapping[str, Any],
        result: Type | None,
        where: str,
        version: str = "",
    ) -> None:
        self.builder, self.operator, self.args = builder, operator, args
        self.attributes, self.result, self.where = attributes, result, where
        self.version = version
        self.read: set[str] = set()

    def error(self, problem: str) -> ModelError:
        """An error that says where it is."""
        return ModelError(f"{self.where}: {self.operator}: {problem}")

    # ------------------------------------------------------------------ emitting

    def emit(self, expr: relax.Expr) -> relax.Expr:
        """Give an expression a variable, and with it a type."""
        return expr if isinstance(expr, GenericConst) else self.builder.emit(expr)

    def te(self, compute: Callable[..., Any], *args: Any, **options: Any) -> relax.Expr:
        """A kernel of TVM's operator library, or of one's own."""
        name = self.operator.split(".")[-1]
        return self.builder.emit_te(compute, *args, primfunc_name_hint=name, **options)

    def permuted(self, value: relax.Expr, source: str, target: str) -> relax.Expr:
        """A tensor in another order of its dimensions."""
        if source == target:
            return value
        if sorted(source) != sorted(target) or len(set(source)) != len(source):
            raise self.error(
                f"layout '{printable(source)}' is not supported: expected an order of "
                f"{', '.join(target)}; save the module before layouts are altered"
            )
        return self.emit(relax.op.permute_dims(value, [source.index(d) for d in target]))

    # ------------------------------------------------------------------ arguments

    def expect(self, least: int, most: int | None = None) -> None:
        """Refuse another number of arguments."""
        if not least <= len(self.args) <= (most or least):
            raise self.error(f"{len(self.args)} arguments, expected {least}")

    def tensor(self, index: int) -> relax.Expr:
        """An argument that is a tensor."""
        if index >= len(self.args):
            raise self.error(f"{len(self.args)} arguments, expected {index + 1}")
        value = self.args[index]
        if isinstance(value, list):
            raise self.error(f"argument {index} is a tuple, expected a tensor")
        return value

    def tensors(self) -> list[relax.Expr]:
        """The one argument, a tuple of tensors."""
        self.expect(1)
        value = self.args[0]
        if not isinstance(value, list) or not value:
            raise self.error("expected a tuple of tensors")
        if any(isinstance(each, list) for each in value):
            raise self.error("a tuple within a tuple, expected tensors")
        return value

    def known(self, index: int) -> NDArray[Any] | None:
        """The value of an argument, where it is a constant."""
        value = self.args[index] if index < len(self.args) else None
        return value.value.numpy() if isinstance(value, GenericConst) else None

    def shape(self, index: int = 0) -> list[int]:
        """The shape of an argument."""
        return shape_of(self.tensor(index))

    def rank(self, index: int = 0) -> int:
        """The number of dimensions of an argument."""
        return len(self.shape(index))

    def declared(self) -> RelayTensorType | None:
        """The type of the result, where the file says it and it is a tensor."""
        known = isinstance(self.result, RelayTensorType) and None not in self.result.shape
        return self.result if known and isinstance(self.result, RelayTensorType) else None

    # ------------------------------------------------------------------ attributes

    def value(self, name: str, default: Any = _MISSING) -> Any:
        """An attribute as it is; the default where the file leaves it out."""
        self.read.add(name)
        found = self.attributes.get(name, default)
        if found is _MISSING:
            raise self.error(f"attribute '{name}' is missing")
        return found

    def _typed(self, name: str, default: Any, kinds: tuple[type, ...], what: str) -> Any:
        found = self.value(name, default)
        if found is default or (isinstance(found, kinds) and not _odd(found, kinds)):
            return found
        raise self.error(f"attribute '{name}' is {printable(found, 60)}, expected {what}")

    def integer(self, name: str, default: Any = _MISSING) -> Any:
        """A whole number; the default where the file says none."""
        found = self._typed(name, default, (int, type(None)), "a whole number")
        if found is None and default is _MISSING:
            raise self.error(f"attribute '{name}' is none, expected a whole number")
        return default if found is None else found

    def number(self, name: str, default: Any = _MISSING) -> float:
        """A number."""
        return float(self._typed(name, default, (int, float), "a number"))

    def flag(self, name: str, default: bool) -> bool:
        """A truth value; old files write 0 and 1."""
        found = self.value(name, default)
        if found is None:
            return default
        if found in (0, 1):
            return bool(found)
        raise self.error(f"attribute '{name}' is {printable(found, 60)}, expected a truth value")

    def text(self, name: str, default: Any = _MISSING) -> str:
        """A text."""
        return str(self._typed(name, default, (str,), "a text"))

    def choice(self, name: str, choices: Sequence[str], default: Any = _MISSING) -> str:
        """A text that is one of several; all others are refused by name."""
        found = self.text(name, default)
        if found not in choices:
            listed = ", ".join(f"'{each}'" for each in choices)
            raise self.error(f"{name}='{printable(found)}' is not supported, only {listed}")
        return found

    def dtype(self, name: str, default: Any = "") -> str | None:
        """A data type; None where the file leaves it open."""
        found = self.text(name, default)
        if found in ("", "void", "handle"):
            return None
        dtype_of(found)
        return found

    def ints(self, name: str, default: Any = _MISSING) -> Any:
        """Whole numbers, from one or several; None where the file says none."""
        found = self.value(name, default)
        if found is None or found is default:
            return found
        values = [found] if isinstance(found, int) else found
        if not isinstance(values, tuple | list) or any(
            not isinstance(v, int) or isinstance(v, bool) for v in values
        ):
            raise self.error(f"attribute '{name}' is {printable(found, 60)}, expected numbers")
        return [int(v) for v in values]

    def spread(self, name: str, count: int, default: int, least: int | None = None) -> list[int]:
        """One number for each of `count` dimensions; a single one holds for all."""
        values = self.ints(name, (default,) * count) or (default,) * count
        if len(values) == 1:
            values = list(values) * count
        if len(values) != count:
            raise self.error(f"attribute '{name}' has {len(values)} numbers, expected {count}")
        if least is not None and min(values) < least:
            raise self.error(f"{name}={list(values)}, expected {least} or more")
        return list(values)

    def bounded(self, count: int, what: str, most: int = LARGEST_CONSTANT) -> int:
        """A count that is going to be allocated or looped over; refused where it is too large."""
        if not 0 <= count <= most:
            raise self.error(f"{what} is {count}; 0 to {most} are supported")
        return count

    def axis(self, axis: int, rank: int, name: str = "axis") -> int:
        """An axis, counted from the front."""
        if not -rank <= axis < rank:
            raise self.error(f"{name} {axis} of {rank} dimensions")
        return axis % rank

    def ignore(self, *names: str) -> None:
        """Attributes that say nothing about what is computed."""
        self.read.update(names)

    def require(self, name: str, allowed: Sequence[Any]) -> None:
        """Refuse an attribute unless it has one of the values for which the rule is right."""
        found = self.value(name, allowed[0])
        found = list(found) if isinstance(found, tuple) else found
        if found not in allowed:
            raise self.error(f"{name}={printable(found, 60)} is not supported")

    def finish(self) -> None:
        """Refuse attributes that the rule did not read."""
        unread = sorted(set(self.attributes) - self.read)
        if unread:
            raise self.error(
                f"attribute '{printable(unread[0])}' = {printable(self.attributes[unread[0]], 60)} "
                "is not known here"
            )


def _odd(found: Any, kinds: tuple[type, ...]) -> bool:
    """A truth value is a whole number to Python, not to a reader."""
    return isinstance(found, bool) and bool not in kinds
