"""A mixed-integer linear program as plain data, independent of any solver.

    minimise  c x   subject to   lower <= A x <= upper for every row,  x within its bounds,
    some x whole numbers

`Linear` is a linear expression; whatever is known in advance (a task that fits on one device
alone) is simply a constant one, so the functions that emit constraints need no special cases.
Every variable may carry a *hint*, its value in a known solution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field


class Linear:
    """sum of coefficient x variable, plus a constant; immutable."""

    __slots__ = ("constant", "terms")

    def __init__(self, terms: dict[int, float] | None = None, constant: float = 0.0) -> None:
        self.terms = {} if terms is None else terms
        self.constant = constant

    def __add__(self, other: Linear | float) -> Linear:
        if not isinstance(other, Linear):
            return Linear(self.terms, self.constant + other)
        terms = dict(self.terms)
        for variable, factor in other.terms.items():
            terms[variable] = terms.get(variable, 0.0) + factor
        return Linear(terms, self.constant + other.constant)

    __radd__ = __add__

    def __mul__(self, factor: float) -> Linear:
        return Linear({v: a * factor for v, a in self.terms.items()}, self.constant * factor)

    __rmul__ = __mul__

    def __neg__(self) -> Linear:
        return self * -1.0

    def __sub__(self, other: Linear | float) -> Linear:
        return self + (other * -1.0)

    def __rsub__(self, other: float) -> Linear:
        return self * -1.0 + other

    def value(self, values: list[float]) -> float:
        """Its value where the variables have `values`."""
        return math.fsum([self.constant, *(a * values[v] for v, a in self.terms.items())])


def total(parts: Iterable[Linear]) -> Linear:
    """The sum of many expressions."""
    terms: dict[int, float] = {}
    constant = 0.0
    for part in parts:
        constant += part.constant
        for variable, factor in part.terms.items():
            terms[variable] = terms.get(variable, 0.0) + factor
    return Linear(terms, constant)


ZERO = Linear()
ONE = Linear(None, 1.0)


@dataclass(frozen=True)
class MilpRow:
    """lower <= sum of the terms <= upper."""

    terms: dict[int, float]
    lower: float
    upper: float


@dataclass
class MilpModel:
    """The program. `contradiction`: a row without variables that cannot hold was added."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    hints: list[float | None] = field(default_factory=list)
    rows: list[MilpRow] = field(default_factory=list)
    objective: Linear = ZERO
    contradiction: bool = False

    def binary(self, name: str, hint: bool | float | None = None) -> Linear:
        """A variable that is 0 or 1."""
        return self._variable(0.0, 1.0, True, name, hint)

    def number(
        self, lower: float, upper: float, name: str, hint: bool | float | None = None
    ) -> Linear:
        """A continuous variable."""
        return self._variable(lower, upper, False, name, hint)

    def _variable(
        self, lower: float, upper: float, integer: bool, name: str, hint: float | None
    ) -> Linear:
        self.lower.append(lower)
        self.upper.append(upper)
        self.integer.append(integer)
        self.names.append(name)
        self.hints.append(None if hint is None else float(hint))
        return Linear({len(self.names) - 1: 1.0})

    def at_least(self, left: Linear, right: Linear | float) -> None:
        """left >= right."""
        self._add(left - right, 0.0, math.inf)

    def at_most(self, left: Linear, right: Linear | float) -> None:
        """left <= right."""
        self._add(left - right, -math.inf, 0.0)

    def equal(self, left: Linear, right: Linear | float) -> None:
        """left == right."""
        self._add(left - right, 0.0, 0.0)

    def _add(self, expression: Linear, lower: float, upper: float) -> None:
        terms = {v: a for v, a in expression.terms.items() if a != 0.0}
        lower, upper = lower - expression.constant, upper - expression.constant
        if terms:
            self.rows.append(MilpRow(terms, lower, upper))
        elif not lower <= 1e-9 or not upper >= -1e-9:
            self.contradiction = True

    def hinted(self, expression: Linear) -> float:
        """Its value in the known solution; variables without a hint count as 0."""
        terms = expression.terms.items()
        return math.fsum([expression.constant, *(a * (self.hints[v] or 0.0) for v, a in terms)])

    def ranges(self) -> float:
        """The sum of all variables' ranges: what a wrong reduced cost of 1 each can amount to."""
        return math.fsum(u - lo for lo, u in zip(self.lower, self.upper, strict=True))

    def violation(self, values: list[float]) -> float:
        """By how much `values` break a row or a bound at most (for tests and for hints)."""
        worst = 0.0
        for value, lower, upper in zip(values, self.lower, self.upper, strict=True):
            worst = max(worst, lower - value, value - upper)
        for row in self.rows:
            left = math.fsum(a * values[v] for v, a in row.terms.items())
            worst = max(worst, row.lower - left, left - row.upper)
        return worst
