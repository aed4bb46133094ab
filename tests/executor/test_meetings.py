"""Devices that share cores: one thread a core, which meet for the steps of several cores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tvm_hetero
from tests.executor.test_native_threads import thread_status
from tests.executor.test_team import X, convolutions, fail_each_workspace
from tests.models import as_schedule, lowered, teams_of_cpus, unit_problem
from tests.waiting import eventually
from tvm_hetero.artifact.write import save_artifact
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.passes.annotate_devices import annotate_devices

CORES = sorted(os.sched_getaffinity(0))[:2]
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")


def executor(*devices: str, private: str = "") -> Executor:
    """Convolutions, each on a device, as often as need be; one has a memory of its own if named."""
    platform = teams_of_cpus()
    rows = (replace(device, private=device.name == private) for device in platform.devices)
    platform = replace(platform, devices=tuple(rows))
    module = lowered(convolutions(), platform)
    problem = unit_problem(module, platform)
    tasks = problem.graph.topological_order
    steps: list[tuple[str, str, tuple[int, ...]]] = [
        (task, devices[i % len(devices)], (0,)) for i, task in enumerate(tasks)
    ]
    return Executor(build(annotate_devices(module, problem, as_schedule(problem, steps))))


@pytest.fixture
def meeting() -> Iterator[Executor]:
    with executor("both", "little", "big") as made:
        yield made


def test_there_is_one_thread_a_core(meeting: Executor) -> None:
    for name, core in (("big", CORES[0]), ("little", CORES[-1])):
        (status,) = thread_status(name)
        assert status["Cpus_allowed_list"] == str(core)
    assert not thread_status("both")
    assert not thread_status("both/1")
    meeting.close()
    assert eventually(lambda: not thread_status("little"))


def test_a_core_that_only_helps_has_a_thread_too() -> None:
    with executor("both"):
        assert len(thread_status("big")) == len(thread_status("little")) == 1


@pytest.mark.parametrize("devices", [("both",), ("both", "big"), ("little", "both"), ("big",)])
def test_the_result_is_that_of_each_alone(devices: tuple[str, ...]) -> None:
    with executor("little") as alone, executor(*devices) as made:
        expected = alone.run(input0=X)[0].numpy()
        for _ in range(20):
            assert np.allclose(made.run(input0=X)[0].numpy(), expected, rtol=1e-3, atol=1e-4)
        for out in made.map([{"input0": X}] * 10):
            assert np.allclose(out[0].numpy(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("private", ["both", "little"])
def test_a_memory_of_its_own_may_share_cores_with_a_team(private: str) -> None:
    with executor("big") as alone, executor("both", "little", "big", private=private) as made:
        expected = alone.run(input0=X)[0].numpy()
        for out in made.map([{"input0": X}] * 10):
            assert np.allclose(out[0].numpy(), expected, rtol=1e-3, atol=1e-4)
        assert any(step.kind == "copy" for step in made.trace()), "nothing was copied"


def test_a_core_that_was_not_given_to_the_process_is_left_alone(tmp_path: Path) -> None:
    # Linux lets a thread leave the mask of `taskset`, where other programs were put.
    path, platform = tmp_path / "both.hetero", teams_of_cpus()
    module = lowered(convolutions(), platform)
    problem = unit_problem(module, platform)
    tasks: list[tuple[str, str, tuple[int, ...]]] = [
        (task, "both", (0,)) for task in problem.graph.topological_order
    ]
    save_artifact(build(annotate_devices(module, problem, as_schedule(problem, tasks))), path)
    program = (
        "import sys; sys.modules['torch'] = None; import tvm_hetero; "
        f"tvm_hetero.load({str(path)!r})"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, CORES[:1]),
    )  # fmt: skip
    assert f"may only use [{CORES[0]}]: give it those cores" in ended.stderr
    with tvm_hetero.load(path) as made:
        assert isinstance(made, Executor)
        assert len(made.run(input0=X)) == 1


def test_the_trace_names_the_team(meeting: Executor) -> None:
    meeting.run(input0=X)
    assert {step.run_by for step in meeting.trace()} == {"both", "little", "big"}


def test_every_workspace_of_a_meeting_fails(meeting: Executor) -> None:
    assert 3 < fail_each_workspace(meeting) < 99
