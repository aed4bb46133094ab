"""Linear programs whose value is a proof.

A floating-point optimum proves nothing; multipliers do. For

    minimise c'x  subject to  A x <= b,  E x = f,  0 <= x <= u

and any m <= 0 and k, with reduced costs r = c - A'm - E'k, every feasible x has

    c'x  >=  b'm + f'k + sum over j of u_j min(0, r_j)

(A. Neumaier and O. Shcherbina, Math. Programming 99, 2004, doi:10.1007/s10107-003-0433-3), so the
solver's duals give a bound that holds however they were rounded       -> `LinearProgram.solve`
Hence every variable must have a finite `u`. Where time has no bound of its own, one is assumed:
a bound L of all schedules of makespan <= H is a bound min(H, L) of all schedules.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tvm_hetero.views.arrays import Array

Terms = Iterable[tuple[int, float]]
# What a bound is multiplied by, for the rounding of the sums that it is made of.
ROUNDING = 1 - 1e-12
# Numbers in linear programs that take about a second.
WORK_A_SECOND = 80_000
# Simplex iterations of one program: the duals that are there then are a proof as well.
_ITERATIONS = 20_000


@dataclass
class _Rows:
    """Sparse rows with their right hand sides."""

    row: list[int] = field(default_factory=list)
    column: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)
    right: list[float] = field(default_factory=list)

    def add(self, terms: Terms, right: float) -> None:
        number = len(self.right)
        for column, value in terms:
            self.row.append(number)
            self.column.append(column)
            self.value.append(value)
        self.right.append(right)

    def matrix(self, columns: int) -> Any:
        from scipy.sparse import csr_array

        shape = (len(self.right), columns)
        where = (np.array(self.row, np.int64), np.array(self.column, np.int64))
        return csr_array((np.array(self.value, float), where), shape=shape)


@dataclass(frozen=True)
class LinearAnswer:
    """A proven bound of the optimum, and the solver's point (None if it stopped early)."""

    bound: float
    point: Array | None


class LinearProgram:
    """A linear program that is written row by row (see the head of this file)."""

    def __init__(self) -> None:
        self.cost: list[float] = []
        self.upper: list[float] = []
        self._most = _Rows()
        self._equal = _Rows()

    def variable(self, upper: float = 1.0, cost: float = 0.0) -> int:
        """A new variable in [0, upper]."""
        self.upper.append(upper)
        self.cost.append(cost)
        return len(self.cost) - 1

    def at_most(self, terms: Terms, right: float) -> None:
        """Sum of coefficient x variable <= right."""
        self._most.add(terms, right)

    def equal(self, terms: Terms, right: float) -> None:
        """Sum of coefficient x variable = right."""
        self._equal.add(terms, right)

    @property
    def size(self) -> int:
        """Numbers that are not 0."""
        return len(self._most.value) + len(self._equal.value)

    def solve(self) -> LinearAnswer:
        """The bound that the duals of HiGHS prove; minus infinity if there are none."""
        from scipy.optimize import linprog

        n = len(self.cost)
        most, equal = self._most.matrix(n), self._equal.matrix(n)
        right, exact = np.array(self._most.right), np.array(self._equal.right)
        cost, upper = np.array(self.cost), np.array(self.upper)
        result = linprog(
            cost,
            A_ub=most,
            b_ub=right,
            A_eq=equal,
            b_eq=exact,
            bounds=np.column_stack([np.zeros(n), upper]),
            method="highs",
            options={"maxiter": _ITERATIONS},
        )
        if result.ineqlin.marginals is None or result.eqlin.marginals is None:
            return LinearAnswer(-math.inf, None)
        m = np.minimum(0.0, np.nan_to_num(result.ineqlin.marginals))
        k = np.nan_to_num(result.eqlin.marginals)
        reduced = cost - most.T @ m - equal.T @ k
        parts = [right * m, exact * k, upper * np.minimum(0.0, reduced)]
        bound = math.fsum(float(number) for part in parts for number in part)
        return LinearAnswer(bound, result.x if result.status == 0 else None)
