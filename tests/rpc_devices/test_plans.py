"""Plans with boards, and libraries for them: what needs no board to be there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tvm

from tests.cost_models.kernel_samples import elementwise
from tests.executor.native_plans import planned, tasks_of_step
from tests.models import NATIVE, PLAIN, as_schedule, dense, lowered, placed, unit_problem
from tests.stateful_model import running_sums
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.kernel_cache import kernel_library
from tvm_hetero.compiler.linking import linker_of
from tvm_hetero.cost_models.protocol import Costs, Progress
from tvm_hetero.devices.target import device_target, dl_device, remote_device
from tvm_hetero.errors import PlatformError, RunError
from tvm_hetero.executor import native
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.kernel_library import load_kernels
from tvm_hetero.kernels.cpu.vector_unit import AVX512_BF16, vector_unit
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.passes.split_segments import split_segments
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.plan.format import plan_from_dict
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.platform.rpc_endpoint import Remote
from tvm_hetero.problem import Cost

# Nobody listens there.
NOWHERE = Remote(server="127.0.0.1:1", timeout=60.0)
PLATFORM = Platform(
    (Device("big", target=NATIVE), Device("pi", target=PLAIN, rpc=NOWHERE)),
    links=(Link("big", "pi", 1e8, 1e-4), Link("pi", "big", 1e8, 1e-4)),
)


class Unit:
    """A cost model: everything takes a second everywhere."""

    name = "unit"

    def costs(
        self, kernels: Sequence[Kernel], platform: Platform, _progress: Progress | None = None
    ) -> Costs:
        row = {device: Cost(((1, 1.0),)) for device in platform.names}
        return {kernel.name: dict(row) for kernel in kernels}


def test_segments_of_a_board_are_calls_and_their_weights_are_in_no_slot() -> None:
    mod = placed(1, PLATFORM)
    split = split_segments(mod)
    plan = planned(split, PLATFORM)
    pi = next(i for i, row in enumerate(plan["workers"]) if row["name"] == "pi")
    steps = [s for s in plan["steps"] if s["worker"] == pi and s["kind"] != "copy"]
    assert steps
    assert all(step["kind"] == "call" and step["function"] == "remote" for step in steps)
    # Every task is in a step, once, as in a plan without boards.
    tasks = [task for step in plan["steps"] for task in tasks_of_step(step)]
    assert sorted(tasks) == sorted(split.main.task_ids)
    own = {a["constant"] for s in steps for c in s["remote"] for a in c["args"] if "constant" in a}
    assert own
    assert own <= split.constants.keys()
    assert all(row["name"].endswith("@0") for row in plan["constants"])
    assert not own & {row["name"].rpartition("@")[0] for row in plan["constants"]}
    # C++ takes it: to it these steps are functions.
    executor = native.create(plan_from_dict(plan))
    with pytest.raises(RunError, match="no functions"):
        executor.run()
    executor.close()


def test_the_memory_of_a_board_is_its_own_whatever_it_computes_on() -> None:
    gpu = replace(PLATFORM.devices[1], name="gpu", target={"kind": "opencl"})
    gpu = replace(gpu, rpc=replace(NOWHERE, server="127.0.0.1:2"))
    platform = replace(PLATFORM, devices=(*PLATFORM.devices, gpu))
    assert [dl_device(platform, device) for device in platform.devices] == [(1, 0), (1, 1), (1, 2)]
    assert remote_device(gpu) == (int(tvm.opencl(0).dlpack_device_type()), 0)
    assert remote_device(PLATFORM.devices[1]) == (1, 0)


def test_states_are_kept_on_no_board() -> None:
    problem = make_problem(running_sums(), PLATFORM, PartitionOptions(cost_model=Unit())).problem
    keepers = [task for task, row in problem.costs.items() if "remember" in task]
    assert keepers
    assert all(set(problem.costs[task]) == {"big"} for task in keepers)
    assert any("pi" in row for task, row in problem.costs.items() if task not in keepers)
    alone = replace(PLATFORM, devices=PLATFORM.devices[::-1][:1], links=())
    with pytest.raises(PlatformError, match="has no CPU device to take inputs and outputs"):
        make_problem(running_sums(), alone, PartitionOptions(cost_model=Unit()))


def test_a_plan_that_keeps_a_state_on_a_board_is_refused() -> None:
    mod = lowered(running_sums(), PLATFORM)
    problem = unit_problem(mod, PLATFORM)
    schedule = as_schedule(problem, [(task, "pi", (0,)) for task in problem.graph.index])
    with pytest.raises(PlatformError, match="'pi' is reached by RPC and keeps no states"):
        planned(split_segments(annotate_devices(mod, problem, schedule)), PLATFORM)


def test_who_loads_a_model_hears_that_its_board_is_not_there() -> None:
    mod = lowered(dense(8, 8), PLATFORM)
    problem = unit_problem(mod, PLATFORM)
    schedule = as_schedule(problem, [(task, "pi", (0,)) for task in problem.graph.index])
    executable = build(annotate_devices(mod, problem, schedule), single=False)
    with pytest.raises(RunError, match=r"'pi' \(RPC server 127.0.0.1:1\) cannot be reached"):
        Executor(executable)


def test_a_library_for_another_processor_needs_its_linker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = device_target(PLATFORM.devices[1])
    assert linker_of(here) is None
    assert linker_of(tvm.target.Target({"kind": "llvm", "mtriple": "x86_64-pc-linux-gnu"})) is None
    other = {"kind": "llvm", "mtriple": "s390x-unknown-linux-gnu"}
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlatformError, match=r"no s390x-linux-gnu-g.. on the PATH; install"):
        linker_of(tvm.target.Target(other))
    # The code that a GPU's library is loaded with is its host's.
    gpu = tvm.target.Target({"kind": "opencl", "host": other})
    linker = tmp_path / "s390x-linux-gnu-gcc"
    shutil.copyfile("/bin/true", linker)
    linker.chmod(0o755)
    assert linker_of(gpu) == str(linker)


def test_a_cross_compiler_links_what_is_for_its_triple(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    # LLVM's other name for some of this machine's kind: no linker is known for it but this one.
    linker = tmp_path / "x86_64h-linux-gnu-g++"
    linker.write_text(f'#!/bin/sh\ntouch {tmp_path}/called\nexec {shutil.which("g++")} "$@"\n')
    linker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    target = {"kind": "llvm", "mtriple": "x86_64h-linux-gnu", "num-cores": 1}
    kernel = elementwise("twice", 16).func
    path = kernel_library({"twice": kernel}, Device("pi", target=target, rpc=NOWHERE))
    assert own_cache in path.parents
    assert (tmp_path / "called").exists()
    ones, out = tvm.runtime.tensor(np.ones(16, "float32")), tvm.runtime.empty((16,), "float32")
    load_kernels(path)["twice"](ones, ones, out)
    assert (out.numpy() == 2).all()


def test_nobody_asks_a_boards_system_for_tile_registers() -> None:
    target = {"kind": "llvm", "mcpu": "sapphirerapids", "mattr": ["+sse2"]}
    here, there = (Device("pi", target=target, rpc=rpc) for rpc in (None, NOWHERE))
    assert vector_unit(device_target(here)).amx
    without = device_target(there)
    unit = vector_unit(without)
    assert "vpdpbusd" in unit.bytes  # VNNI needs nobody's permission
    assert replace(unit, bytes="") == AVX512_BF16
    assert list(without.attrs["mattr"]) == ["+sse2", "-amx-bf16"]
