"""A device of several cores: its members are there, take part, fail well, and end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tests.executor.test_native_threads import thread_status
from tests.models import as_schedule, lowered, unit_problem
from tests.waiting import eventually
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import RunError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.platform import Device, Platform

CORES = sorted(os.sched_getaffinity(0))[:2]
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")
X = np.random.default_rng(0).standard_normal((1, 64, 28, 28)).astype("float32")


def convolutions() -> tvm.IRModule:
    """Three by Winograd's tiles, whose loops are divided and take workspaces in each piece."""
    weights = np.random.default_rng(1).standard_normal((64, 64, 3, 3)) / 24
    weight = relax.const(weights.astype("float32"))
    value = x = relax.Var("x", relax.TensorType(X.shape, "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            for _ in range(3):
                value = builder.emit(relax.op.nn.conv2d(value, weight, padding=1))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    return builder.get()


def executor(cores: int) -> Executor:
    """Convolutions on one device of so many cores."""
    target = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": cores}
    platform = Platform((Device("team", target=target, cores=tuple(CORES[:cores])),))
    module = lowered(convolutions(), platform)
    problem = unit_problem(module, platform)
    tasks = [(task, "team", (0,)) for task in problem.graph.index]
    return Executor(build(annotate_devices(module, problem, as_schedule(problem, tasks))))


@pytest.fixture
def team() -> Iterator[Executor]:
    with executor(2) as made:
        yield made


def test_a_member_for_each_core_but_the_first_sits_on_its_own(team: Executor) -> None:
    (member,) = thread_status("team/1")
    assert member["Cpus_allowed_list"] == str(CORES[1])
    (leader,) = thread_status("team")
    assert leader["Cpus_allowed_list"] == str(CORES[0])
    team.close()
    assert eventually(lambda: not thread_status("team/1"))


def test_a_device_of_one_core_has_no_members() -> None:
    with executor(1):
        assert not thread_status("team/1")


def test_the_result_is_that_of_one_core(team: Executor) -> None:
    with executor(1) as alone:
        expected = alone.run(input0=X)[0].numpy()
    for _ in range(50):
        assert np.allclose(team.run(input0=X)[0].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_members_work_and_sleep(team: Executor) -> None:
    def worked() -> int:
        (member,) = thread_status("team/1")
        (task,) = [
            each
            for each in Path("/proc/self/task").iterdir()
            if (each / "comm").read_text().strip() == "team/1"
        ]
        assert member["Name"] == "team/1"
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])  # ticks of the processor

    before = worked()
    team.benchmark({"input0": X}, repeat=300, warmup=0)
    assert worked() > before


def fail_each_workspace(made: Executor) -> int:
    """Let the n-th workspace fail, for every n; how many requests that failed, each alone."""
    inject = tvm_ffi.get_global_func("tvm_hetero.inject_fault")
    expected = made.run(input0=X)[0].numpy().tobytes()
    failed = 0
    for nth in range(1, 100):
        inject("workspace", nth)
        try:
            made.run(input0=X)
        except RunError as error:
            assert f"injected fault: workspace {nth}" in str(error)
            failed += 1
        finally:
            inject("workspace", 0)
        assert made.run(input0=X)[0].numpy().tobytes() == expected
    return failed


def test_the_nth_workspace_that_fails_fails_its_request_only(team: Executor) -> None:
    failed = fail_each_workspace(team)
    assert 3 < failed < 99, "each piece takes some, and there are fewer than were tried"
