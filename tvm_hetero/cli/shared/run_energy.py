"""What a run takes in joules, where the kernel shows the processor's counters."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tvm_hetero.platform.energy_counters import EnergyMeter, why_not_measured

if TYPE_CHECKING:
    from tvm_hetero.cli.shared.measure import Arrays
    from tvm_hetero.executor.executor import Executor


def measure_energy(
    executors: Mapping[str, Executor],
    inputs: Arrays,
    repeat: int,
    root: str | os.PathLike[str] = "/",
) -> dict[str, Any]:
    """Joules a run of each, of all packages, idle or not; else ``not_measured``: why.

    One after the other runs, `repeat` times without a pause. What else the machine does meanwhile
    is in it.
    """
    why = why_not_measured(root)
    if why is not None:
        return {"not_measured": why}
    found = {}
    for name, executor in executors.items():
        meter = EnergyMeter(root)
        executor.benchmark(inputs, repeat=repeat, warmup=0)
        found[name] = meter.look() / repeat
    return found


def energy_text(found: Mapping[str, Any]) -> str:
    """The same in a line."""
    if "not_measured" in found:
        return f"energy: not measured, as {found['not_measured']}"
    each = ", ".join(f"{joules:.3g} J of {name}" for name, joules in found.items())
    return f"energy a run, of all packages: {each}"
