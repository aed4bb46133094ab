"""A plan under watts, for a reader: period, watts, energy, and what each device does meanwhile."""

from __future__ import annotations

from typing import Any

from tvm_hetero.planning.power import PowerPlan
from tvm_hetero.problem.objective import loads
from tvm_hetero.util.text_tables import format_table
from tvm_hetero.util.units import format_seconds

_HEADERS = ("device", "tasks", "busy, of the period", "watts while busy")


def power_text(plan: PowerPlan, *, energy: bool) -> str:
    """The plan of a steady state; `energy`: that is what was minimised, not the period."""
    busy = loads(plan.problem, plan.schedule.executions, plan.schedule.copies)
    rows = [
        (
            device.name,
            str(sum(run.device == device.name for run in plan.schedule.executions)),
            f"{busy[device.name] / plan.period:.1%}",
            f"{device.watts or 0.0:g}",
        )
        for device in plan.problem.platform.devices
        if device.name in busy
    ]
    return (
        f"{format_table(_HEADERS, rows)}\n\n"
        f"a batch every {format_seconds(plan.period)} ({1 / plan.period:.4g} a second), "
        f"{plan.joules:.4g} J each, {plan.watts:.4g} W in the mean\n"
        f"{_bound_text(plan, energy=energy)}"
    )


def _bound_text(plan: PowerPlan, *, energy: bool) -> str:
    if plan.bound == 0:
        return "no bound is proven"
    if energy:
        return f"none takes less than {plan.bound:.4g} J (gap {plan.gap(plan.joules):.2%})"
    gap = plan.gap(plan.period)
    return f"none is quicker than {format_seconds(plan.bound)} (gap {gap:.2%})"


def power_dict(plan: PowerPlan, *, energy: bool) -> dict[str, Any]:
    """The same for a program."""
    return {
        "period": plan.period,
        "joules": plan.joules,
        "watts": plan.watts,
        "bound": plan.bound,
        "gap": plan.gap(plan.joules if energy else plan.period),
        "busiest": plan.schedule.value,
        "placement": {task: list(at) for task, at in plan.schedule.placement.items()},
    }
