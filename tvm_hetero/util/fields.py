"""A row of a document, read field by field: each has its type, or is refused with its path.

All formats of ours read their rows by this one class, so that one mistake has one wording: where
it is, what was expected, what stands there. Why no library does it: docs/method/documents.md.

    row = Fields(data, "net.json: task 3", ["id"], ["cores"])
    row.name("id"), row.integers("cores", (), least=0)

raises ``net.json: task 3: cores[1]: expected an integer of at least 0, got -1``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from tvm_hetero.errors import FormatError
from tvm_hetero.util.documents import check_keys
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import LARGEST
from tvm_hetero.util.untrusted_names import SHOWN

_T = TypeVar("_T")


class Fields:
    """A mapping whose keys are checked.

    Every method reads one field; `default` is what an absent optional one stands for. All raise
    `FormatError` where the value is of another kind.
    """

    __slots__ = ("data", "where")

    def __init__(
        self,
        data: object,
        where: str,
        required: Collection[str] = (),
        optional: Collection[str] | None = (),
    ) -> None:
        """Check the keys (see `check_keys`); `where` begins every message.

        With None as `optional` there may be any others: names that the document makes up.
        """
        if optional is None:
            optional = data if isinstance(data, Mapping) else ()
        self.data = check_keys(data, where, required, optional)
        self.where = where

    def __contains__(self, key: str) -> bool:
        """Whether the field is there, be it null."""
        return key in self.data

    def has(self, key: str) -> bool:
        """Whether the field is there and not null."""
        return self.data.get(key) is not None

    def at(self, key: str) -> str:
        """The path to a field, as messages give it; a name that is made up is quoted."""
        plain = key.isidentifier() and len(key) < SHOWN
        return f"{self.where}: {key if plain else quote(key)}"

    def refuse(self, key: str, expected: str) -> NoReturn:
        """Raise the error that says what was expected of a field."""
        refuse(self.data.get(key), self.at(key), expected)

    def text(self, key: str, default: str | None = None) -> str:
        """A text, maybe an empty one."""
        value = self.data.get(key, default)
        if not isinstance(value, str):
            self.refuse(key, "text")
        return value

    def name(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self.data.get(key, default)
        if not isinstance(value, str) or not value:
            self.refuse(key, "a name")
        return value

    def choice(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        """One of some texts."""
        value = self.data.get(key, default)
        if not isinstance(value, str) or value not in known:
            self.refuse(key, f"one of {', '.join(map(repr, known))}")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """True or false, and neither 0 nor 1."""
        value = self.data.get(key, default)
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def integer(
        self,
        key: str,
        default: int | None = None,
        *,
        least: int | None = None,
        most: int | None = None,
    ) -> int:
        """An integer (no bool, no 2.0), between `least` and `most`."""
        return check_integer(self.data.get(key, default), self.where, key, least, most)

    def integers(
        self,
        key: str,
        default: Sequence[int] | None = None,
        *,
        least: int | None = None,
        distinct: bool = False,
    ) -> tuple[int, ...]:
        """A list of integers of at least `least`; each only once if they are `distinct`."""
        found = check_integers(self.data.get(key, default), self.where, key, least)
        if distinct and len(set(found)) < len(found):
            self.refuse(key, "a list with each number once")
        return found

    def number(self, key: str, expected: str = "a finite number of at least 0") -> float:
        """A finite number of at least 0 that is none in text, which `quantity` reads as well."""
        value = self.data.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, expected)
        if not 0 <= value <= LARGEST:
            self.refuse(key, expected)
        return float(value)

    def names(self, key: str) -> tuple[str, ...]:
        """A list of texts that are not empty."""
        found = self.items(key)
        if not all(isinstance(value, str) and value for value in found):
            self.refuse(key, "a list of names")
        return tuple(found)

    def quantity(
        self, key: str, parse: Callable[[object, str], _T], default: _T | None = None
    ) -> _T:
        """What `parse` reads, one of `tvm_hetero.util.units`."""
        if default is not None and key not in self.data:
            return default
        return parse(self.data.get(key), self.at(key))

    def mapping(
        self, key: str, shape: str = "a mapping", *, default: Mapping[Any, Any] | None = None
    ) -> Mapping[Any, Any]:
        """A mapping, whose keys YAML may have made of any type; `shape` says what it looks like."""
        value = self.data.get(key, default)
        if not isinstance(value, Mapping):
            self.refuse(key, shape)
        return value

    def items(self, key: str, default: Sequence[Any] | None = None) -> list[Any]:
        """A list of anything."""
        value = self.data.get(key, default)
        if not isinstance(value, list | tuple):
            self.refuse(key, "a list")
        return list(value)

    def rows(
        self,
        key: str,
        read: Callable[[Any, str], _T],
        what: str | None = None,
        default: Sequence[Any] | None = None,
    ) -> tuple[_T, ...]:
        """A list of which `read` reads each element, given its path: ``key[3]``, or ``what 3``."""
        items = self.items(key, default)
        if what is None:
            return tuple(read(x, f"{self.where}: {key}[{i}]") for i, x in enumerate(items))
        return tuple(read(x, f"{self.where}: {what} {i}") for i, x in enumerate(items))

    def fields(
        self, key: str, required: Collection[str] = (), optional: Collection[str] | None = ()
    ) -> Fields:
        """A mapping with keys of its own (with None as `optional`: any)."""
        return Fields(self.data.get(key), self.at(key), required, optional)


def refuse(value: object, where: str, expected: str) -> NoReturn:
    """Raise the error of all formats: where, what was expected, what is there."""
    raise FormatError(f"{where}: expected {expected}, got {quote(value)}")


def check_integer(
    value: object, where: str, key: str, least: int | None = None, most: int | None = None
) -> int:
    """Return `value` if it is an integer between `least` and `most` (see `Fields.integer`)."""
    if type(value) is int and (least is None or value >= least) and (most is None or value <= most):
        return value
    limits = "" if least is None else f" of at least {least}"
    if most is not None:
        limits = f" of at most {most}" if least is None else f" from {least} to {most}"
    refuse(value, f"{where}: {key}", f"an integer{limits}")


def check_integers(
    value: object, where: str, key: str, least: int | None = None
) -> tuple[int, ...]:
    """Return `value` if it is a list of integers (see `Fields.integers`)."""
    if not isinstance(value, list | tuple):
        refuse(value, f"{where}: {key}", "a list of integers such as [0, 1]")
    return tuple(check_integer(n, where, f"{key}[{i}]", least) for i, n in enumerate(value))
