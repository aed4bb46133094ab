"""By how much numbers of a schedule may differ and still count as equal.

Solvers add times in other orders than the judge, or scale them to integers and back. 1e-9 of the
makespan is far above the rounding of either, and far below any measurement. The absolute part only
matters where all times are 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.schedule import Execution

RELATIVE, ABSOLUTE = 1e-9, 1e-15


def last_end(executions: Iterable[Execution]) -> float:
    """When the last execution ends, s; 0 if there is none."""
    end = 0.0
    for execution in executions:
        end = max(end, execution.end)
    return end


def of_times(executions: Iterable[Execution]) -> float:
    """By how much two times of a schedule may differ, s."""
    return ABSOLUTE + RELATIVE * last_end(executions)


def of_value(problem: Problem, executions: Sequence[Execution], value: float) -> float:
    """By how much a stated value may differ from `value`, in the objective's unit.

    What devices spend while they are idle is counted from the makespan less what they are busy,
    so an energy is off by as much as the makespan is.
    """
    scale = abs(value)
    if problem.objective.kind == "energy":
        idle = sum(device.idle_watts for device in problem.platform.devices)
        scale = max(scale, last_end(executions) * idle)
    return ABSOLUTE + RELATIVE * scale
