"""Of two ways to divide a machine's cores the one whose batches are shorter is kept."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.models import as_schedule, branchy, lowered, unit_problem
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.choose_division import (
    DIVISIONS,
    division_text,
    divisions_text,
    quickest_division,
)
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.platform import Device, Platform

CORES = sorted(os.sched_getaffinity(0))[:2]
TARGET = {"kind": "llvm", "mcpu": "x86-64-v2"}
SIDE_BY_SIDE = Platform(
    tuple(Device(f"cpu{i}", target=TARGET, cores=(core,)) for i, core in enumerate(CORES))
)
TOGETHER = Platform((Device("cpu0", target=TARGET, cores=tuple(CORES)),))


def built(platform: Platform) -> Executable:
    """`branchy`, all on the first device."""
    module = lowered(branchy(), platform)
    problem = unit_problem(module, platform)
    tasks = [(task, platform.names[0], (0,)) for task in problem.graph.index]
    return build(annotate_devices(module, problem, as_schedule(problem, tasks)))


def test_a_division_is_told_by_its_devices_and_their_cores():
    two = Platform(
        (Device("a", target=TARGET, cores=(0,)), Device("b", target=TARGET, cores=(1, 2)))
    )
    assert division_text(two) == "a (1 core), b (2 cores)"
    measured = {"a (1 core), b (2 cores)": 2e-3, "c (3 cores)": 3e-3}
    assert (
        divisions_text(measured, two)
        == "a (1 core), b (2 cores) 2.00 ms, before c (3 cores) 3.00 ms"
    )


@pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
def test_the_quickest_is_kept_and_says_what_all_took(tmp_path: Path):
    executables = [built(SIDE_BY_SIDE), built(TOGETHER)]
    best = quickest_division(executables)
    measured = best.decision[DIVISIONS]
    assert list(measured) == [division_text(SIDE_BY_SIDE), division_text(TOGETHER)]
    assert all(seconds > 0 for seconds in measured.values())
    assert division_text(best.problem.platform) == min(measured, key=measured.get)
    best.save(tmp_path / "net.hetero")
    assert load_artifact(tmp_path / "net.hetero").decision[DIVISIONS] == measured
