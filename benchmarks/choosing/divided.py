"""What whole machines cost: the least if any part of a machine could be had.

    minimise    sum over k, o of  f(o) y[k,o]    f: price, or watts with the full share
    subject to  sum over o of  c(k,o) y[k,o] >= need(k)    of options that are accurate enough
                sum over k, o on m of  y[k,o] <= available(m),  y >= 0

The linear program has the rates of the exact one and nothing that is whole: a machine may be
divided among classes, and a class among variants, at no loss. No choice with these rates costs
less, so one minus its value over a rule's price is the most that anyone can be below the rule.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from benchmarks.choosing.rules import COSTS
from tvm_hetero.planning.choosing.arrivals import UNITS
from tvm_hetero.planning.choosing.find_choice import RatedRequest
from tvm_hetero.planning.choosing.program import unit_of

# HiGHS's own tolerance, taken off the value.
_SLACK = 1e-6


def divided_bound(case: RatedRequest, goal: str = "price") -> float:
    """The value of the linear program, an hour or in watts; 0 where it says nothing."""
    request = case.request
    rows = [each for each in case.rated if each.option.variant.accuracy
            >= request.classes[each.served].least_accuracy]  # fmt: skip
    carried = np.zeros((len(request.classes), len(rows)))
    taken = np.zeros((len(request.machines), len(rows)))
    names = [machine.name for machine in request.machines]
    for i, each in enumerate(rows):
        carried[each.served, i] = each.capacity / UNITS
        taken[names.index(each.option.machine.name), i] = 1.0
    outcome = linprog(
        [COSTS[goal](each) / unit_of(request, goal) for each in rows],
        np.vstack([-carried, taken]),
        [-1.0] * len(request.classes) + [float(machine.available) for machine in request.machines],
        method="highs",
    )
    return float(outcome.fun) * (1 - _SLACK) if outcome.success else 0.0
