"""Decide by measuring how cores are divided: into teams that overlap, or each by itself.

A plan on teams gives each operator as many cores as suit it, so on paper it is never behind one on
the cores alone. Where costs are off, or the machine is not what it was when they were measured, it
may be. So both are built, run here in turns on the same inputs, and compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from tvm_hetero.artifact.executable import Executable
from tvm_hetero.executor.choose_variant import measure_executors
from tvm_hetero.executor.compare_outputs import alike_limit, compare_outputs
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.interleave import CountTold
from tvm_hetero.platform.model import Platform
from tvm_hetero.util.units import format_seconds

DIVISIONS = "divisions"
"""The key of an artifact's decision under which the seconds of each division stand."""


def quickest_division(
    executables: Sequence[Executable], tell: CountTold = lambda _done, _total: None
) -> Executable:
    """The executable whose batches are shortest here; its decision tells of all.

    Parameters
    ----------
    executables : of one model for one objective, each for other devices of this machine; of equals
        the first is chosen.
    tell : hears of the runs.

    Raises
    ------
    RunError
        If one of them does not run.
    """
    with ExitStack() as stack:
        executors = {
            division_text(each.problem.platform): stack.enter_context(Executor(each))
            for each in executables
        }
        compare_outputs(executors, alike_limit(executables[0]))
        measured = measure_executors(executors, executables[0].schedule.kind, tell)
    best = min(range(len(executables)), key=lambda i: list(measured.values())[i])
    chosen = executables[best]
    return replace(chosen, decision={**(chosen.decision or {}), DIVISIONS: measured})


def division_text(platform: Platform) -> str:
    """A division in words: ``cpu0 (1 core), cpu1 (1 core)``."""
    return ", ".join(f"{d.name} ({_count(len(d.cores))})" for d in platform.devices)


def _count(cores: int) -> str:
    return f"{cores} core{'' if cores == 1 else 's'}"


def divisions_text(measured: Mapping[str, float], kept: Platform) -> str:
    """What was measured, that which was kept first: ``cpu0 (2 cores) 3.1 ms, before ...``."""
    first = division_text(kept)
    others = [f"{name} {format_seconds(took)}" for name, took in measured.items() if name != first]
    return f"{first} {format_seconds(measured[first])}, before {' and '.join(others)}"
