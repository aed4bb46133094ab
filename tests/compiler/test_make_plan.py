"""Plans: slots shared where memory is shared, copies where it is not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.addition_models import sums
from tests.executor.interpreter import interpret
from tests.executor.native_plans import create, planned, tasks_of_step
from tests.models import (
    NATIVE,
    as_schedule,
    branchy,
    branchy_inputs,
    equal_cpus,
    lowered,
    placed,
    random_schedule,
    two_cpus,
    unit_problem,
)
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.make_plan import make_plan
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.io_tasks import input_task, output_task
from tvm_hetero.passes.split_segments import split_segments
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.plan.format import plan_from_dict, plan_text, plan_to_dict
from tvm_hetero.plan.model import weight_name
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost, Objective, Problem
from tvm_hetero.problem.equivalent_devices import equivalence_classes


class Millisecond:
    """A cost model: every kernel takes a millisecond everywhere."""

    name = "millisecond"

    def costs(self, kernels, platform, progress=None):
        return {k.name: {d: Cost(((1, 1e-3),)) for d in platform.names} for k in kernels}


def cpu_and_gpu(overlap: bool) -> Platform:
    cpu, _ = two_cpus().devices
    gpu = Device("gpu", target={"kind": "cuda", "arch": "sm_90"}, overlap=overlap)
    links = (Link("cpu", "gpu", 1e10, 1e-5), Link("gpu", "cpu", 1e10, 1e-5))
    return Platform((replace(cpu, name="cpu", overlap=overlap), gpu), links, name="cpu-and-gpu")


def linked(devices: Sequence[Device]) -> tuple[Link, ...]:
    names = [device.name for device in devices]
    return tuple(Link(a, b, 1e10, 1e-6) for a, b in itertools.permutations(names, 2))


def split_on(platform: Platform, seed: int):
    prepared = make_problem(branchy(), platform, PartitionOptions(cost_model=Millisecond()))
    schedule = random_schedule(prepared.problem, seed)
    split = split_segments(annotate_devices(prepared.module, prepared.problem, schedule))
    return split, planned(split, platform), schedule


# Three sums; a constant and a result that are views.
THREE = sums(lambda add, x, k: relax.op.reshape(add(add(add(x, x), k), x), (2, 8)))
CONSTANT = np.arange(16, dtype="float32").reshape(4, 4)


def three(batch: int, *steps: tuple[str, str, tuple[int, ...]]) -> tvm.IRModule:
    """`THREE` for a batch, placed."""
    module = relax.transform.BindParams("main", {"k": CONSTANT})(THREE)
    problem = replace(unit_problem(module, two_cpus()), objective=Objective("latency", batch))
    return annotate_devices(module, problem, as_schedule(problem, list(steps)))


def argument(place: str, where: int, *shape: int) -> dict[str, Any]:
    return {place: where, "shape": list(shape or (16,)), "dtype": "float32"}


def slot(name: str, *shape: int) -> dict[str, Any]:
    return {"name": name, "device": 0, "shape": list(shape or (16,)), "dtype": "float32"}


def call(task: str, *args: dict[str, Any]) -> dict[str, Any]:
    return {"kernel": "add", "task": task, "args": list(args), "written": 1}


def test_a_plan_in_full():
    first, last = two_cpus().devices
    module = three(1, ("0.add", "big", (0,)), ("1.add", "big", (0,)), ("2.add", "little", (0,)))
    assert planned(split_segments(module), two_cpus()) == {
        "format": "tvm-hetero/plan/2",
        "batch": 1,
        "devices": [{"name": "host", "dl_type": 1, "dl_id": 0}],
        "workers": [
            {"name": "big", "device": 0, "cores": list(first.cores), "role": "compute"},
            {"name": "little", "device": 0, "cores": list(last.cores), "role": "compute"},
        ],
        "slots": [slot("input0"), slot("1.add/1", 4, 4), slot("1.add"), slot("2.add")],
        "inputs": [{"name": "input0", "slot": 0, "shape": [16], "dtype": "float32"}],
        "constants": [{"name": "1.add/1@0", "slot": 1}],
        "outputs": [{"name": "output0", "slot": 3, "shape": [2, 8]}],
        "steps": [
            {
                "kind": "kernels",
                "name": "big/seg0",
                "worker": 0,
                "ins": [0, 1],
                "outs": [2],
                "scratch": 64,
                "calls": [
                    call("0.add", argument("in", 0), argument("in", 0), argument("scratch", 0)),
                    call("1.add", argument("scratch", 0), argument("in", 1), argument("out", 0)),
                ],
            },
            {
                "kind": "kernels",
                "name": "little/seg1",
                "worker": 1,
                "ins": [2, 0],
                "outs": [3],
                "scratch": 0,
                "calls": [call("2.add", argument("in", 0), argument("in", 1), argument("out", 0))],
            },
        ],
    }


def test_the_plan_of_the_documentation_is_one():
    text = (Path(__file__).parents[2] / "docs/formats.md").read_text(encoding="utf-8")
    _, chapter = text.split("### `tvm-hetero/plan/2`")
    plan = json.loads(chapter.split("```")[1].removeprefix("json"))
    create(plan).close()
    # It is what the maker would write of such a module, key by key.
    module = three(1, ("0.add", "big", (0,)), ("1.add", "big", (0,)), ("2.add", "little", (0,)))
    made = planned(split_segments(module), two_cpus())
    assert list(plan) == list(made)
    for rows in ("devices", "workers", "slots", "inputs", "constants", "outputs", "steps"):
        assert set(plan[rows][0]) == set(made[rows][0])


def test_a_plan_is_written_a_row_a_line():
    made = make_plan(split_segments(placed(1)), two_cpus())
    text, plan = plan_text(made), plan_to_dict(made)
    assert json.loads(text) == plan and plan_from_dict(plan) == made
    rows = [*plan["slots"], *plan["steps"], *(c for s in plan["steps"] for c in s["calls"])]
    lines = text.splitlines()
    assert len(rows) < len(lines) < 2 * len(rows)
    (line,) = [line for line in lines if '"task": "8.dense1"' in line]
    assert line.strip().startswith('{"kernel": "dense1", ')


def test_a_batch_has_each_name_once_an_element_and_its_weights_once():
    both = [("0.add", "big", (0, 1)), ("1.add", "big", (0,)), ("1.add", "little", (1,))]
    module = three(2, *both, ("2.add", "little", (0, 1)))
    plan = planned(split_segments(module), two_cpus())
    assert plan["batch"] == 2
    assert [row["name"] for row in plan["inputs"]] == ["input0#0", "input0#1"]
    assert [row["name"] for row in plan["outputs"]] == ["output0#0", "output0#1"]
    assert [row["name"] for row in plan["constants"]] == ["1.add/1@0"]
    tasks = [task for step in plan["steps"] for task in tasks_of_step(step)]
    assert sorted(tasks) == [f"{i}.add#{e}" for i in range(3) for e in range(2)]
    executable = build(module, single=False)
    values = {f"input0#{e}": np.full(16, e + 1, "float32") for e in range(2)}
    outputs = interpret(executable.variants["partition"], executable.weights, values)
    for e, output in enumerate(outputs):
        assert (output == (3.0 * (e + 1) + CONSTANT).reshape(2, 8)).all()


def private_little() -> Platform:
    """Two CPU places, the second with a memory of its own."""
    big, little = two_cpus().devices
    return replace(two_cpus(), devices=(big, replace(little, private=True)))


def test_a_private_device_has_a_memory_of_its_own():
    copied = 0
    for seed in range(4):
        _, plan, schedule = split_on(private_little(), seed)
        assert [(d["dl_type"], d["dl_id"]) for d in plan["devices"]] == [(1, 0), (1, 1)]
        copies = [step for step in plan["steps"] if step["kind"] == "copy"]
        copied += len(copies)
        assert len(copies) == len(schedule.copies)
    assert copied > 4


def test_workers_of_equal_devices_that_only_compute_are_alike():
    def groups(platform: Platform, *names: str) -> list[int | None]:
        split, _, _ = split_on(platform, 1)
        made = planned(split, platform, [names])
        assert {row["name"] for row in made["workers"]} >= set(platform.names)
        return [row.get("alike") for row in made["workers"]]

    assert groups(equal_cpus(), "big", "little") == [0, 0]
    assert groups(equal_cpus(), "little") == [None, None]
    assert set(groups(private_little(), "big", "little")) == {None}


def test_devices_that_share_cores_are_meetings_of_one_thread_a_core():
    def cpu(name: str, *cores: int) -> Device:
        return Device(name, target=NATIVE, cores=cores)

    def threads(*devices: Device) -> dict[str, list[str]]:
        split, _, _ = split_on(Platform(devices, linked(devices)), 3)
        workers = planned(split, Platform(devices, linked(devices)))["workers"]
        names = [row["name"] for row in workers]
        return {row["name"]: [names[i] for i in row.get("threads", ())] for row in workers}

    a, b, both = cpu("a", 0), cpu("b", 1), cpu("both", 0, 1)
    assert threads(a, b, both) == {"a": [], "b": [], "both": ["a", "b"]}
    assert threads(a, both) == {"a": [], "core1": [], "both": ["a", "core1"]}
    # Two devices of one core take turns there.
    assert threads(a, cpu("again", 0)) == {"a": [], "again": ["a"]}
    # A device that shares no core has threads of its own, and so has one that shares no memory.
    assert threads(cpu("c", 2), both) == {"c": [], "both": []}
    apart = replace(both, name="apart", private=True)
    assert threads(a, b, apart) == {"a": [], "b": [], "apart": []}
    # A name that a device has is no other core's, and a number may be there on two nodes.
    called = cpu("core0", 1)
    assert threads(called, both) == {"core0": [], "core0_1": [], "both": ["core0_1", "core0"]}
    away = [replace(cpu(name, 2, 3), node="node1") for name in ("c", "d")]
    here = [replace(device, node="node0", name=device.name * 2) for device in away]
    rows = threads(*away, *here)
    assert len({thread for row in rows.values() for thread in row}) == 4


def test_devices_are_alike_by_target_cores_and_costs():
    def problem(platform: Platform, slower: float = 1.0) -> Problem:
        found = unit_problem(lowered(branchy(), platform), platform)
        for row in found.costs.values():
            row["little"] = Cost(((1, 1e-3 * slower),))
        return found

    assert equivalence_classes(problem(equal_cpus())) == [("big", "little")]
    assert equivalence_classes(problem(equal_cpus(), 1.02)) == [("big", "little")]
    assert equivalence_classes(problem(equal_cpus(), 1.2)) == []  # another kind of core
    assert equivalence_classes(problem(two_cpus())) == []


def with_memory(platform: Platform, *sizes: int | None) -> Platform:
    devices = zip(platform.devices, sizes, strict=True)
    return replace(platform, devices=tuple(replace(d, memory=size) for d, size in devices))


def test_a_plan_says_how_large_its_memories_are():
    split, _, _ = split_on(two_cpus(), 1)
    [host] = planned(split, with_memory(two_cpus(), 3 << 20, 5 << 20))["devices"]
    assert host == {"name": "host", "dl_type": 1, "dl_id": 0, "memory": 8 << 20}
    [host] = planned(split, with_memory(two_cpus(), 3 << 20, None))["devices"]
    assert "memory" not in host
    apart = with_memory(private_little(), 3 << 20, 5 << 20)
    split, _, _ = split_on(apart, 1)
    plan = planned(split, apart)
    assert [row["memory"] for row in plan["devices"]] == [3 << 20, 5 << 20]
    executor = create(plan)
    assert executor.frames > 1
    for row in plan["devices"]:
        row["memory"] = 0
    assert create(plan).frames == 1


@pytest.mark.parametrize("platform", [two_cpus(), private_little()], ids=["shared", "private"])
@pytest.mark.parametrize("seed", range(3))
def test_run_step_by_step_it_is_the_model(platform, seed):
    prepared = make_problem(branchy(), platform, PartitionOptions(cost_model=Millisecond()))
    schedule = random_schedule(prepared.problem, seed)
    module = annotate_devices(prepared.module, prepared.problem, schedule)
    executable = build(module)
    inputs = dict(zip(["in/x", "y"], branchy_inputs(seed), strict=True))
    reference = ReferenceVM(module).run(*inputs.values())
    ours = interpret(executable.variants["partition"], executable.weights, inputs)
    assert [out.tobytes() for out in ours] == [out.tobytes() for out in reference]
    single = interpret(executable.variants["single"], executable.weights, inputs)
    for one, other in zip(single, ours, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_two_devices_on_one_core_have_two_threads_only_where_the_platform_asks_for_it():
    split = split_segments(placed(1))
    big, little = two_cpus().devices
    devices = (big, replace(little, cores=big.cores))
    platform = replace(two_cpus(), devices=devices, shared_cores=False)
    rows = {row["name"]: row for row in planned(split, platform)["workers"]}
    assert "threads" not in rows["big"]
    assert rows["little"]["threads"] == [list(rows).index("big")]
    plan = planned(split, replace(platform, shared_cores=True))
    assert plan["workers"][0]["cores"] == plan["workers"][1]["cores"]
    assert all("threads" not in row for row in plan["workers"])


def test_cpu_places_share_every_slot():
    _, plan, schedule = split_on(two_cpus(), 1)
    assert schedule.copies, "this placement has to move something for the test to mean anything"
    assert {step["kind"] for step in plan["steps"]} == {"kernels"}
    assert [(d["dl_type"], d["dl_id"]) for d in plan["devices"]] == [(1, 0)]
    names = [slot["name"] for slot in plan["slots"]]
    assert len(names) == len(set(names))
    assert [worker["cores"] for worker in plan["workers"]] == [
        list(device.cores) for device in two_cpus().devices
    ]
    create(plan).close()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("overlap", [False, True])
def test_each_copy_of_the_schedule_is_one_step(seed, overlap):
    _, plan, schedule = split_on(cpu_and_gpu(overlap), seed)
    copies = [step for step in plan["steps"] if step["kind"] == "copy"]
    scheduled = {(c.tensor.replace(input_task(0), "in/x").replace(input_task(1), "y"), c.dst)
                 for c in schedule.copies}  # fmt: skip
    assert {(s["name"].split(": ")[0], s["name"].split("> ")[1]) for s in copies} == scheduled
    assert len(copies) == len(schedule.copies)
    for step in copies:
        near, far = (plan["slots"][step[key][0]]["device"] for key in ("ins", "outs"))
        assert near != far
        assert step["to_device"] == far
        role = plan["workers"][step["worker"]]["role"]
        assert role == ("copy" if overlap else "compute")


@pytest.mark.parametrize("seed", range(6))
def test_every_slot_is_filled_before_it_is_read(seed):
    _, plan, _ = split_on(cpu_and_gpu(True), seed)
    filled = {row["slot"] for row in [*plan["inputs"], *plan["constants"]]}
    for step in plan["steps"]:
        assert filled.issuperset(step["ins"]), step["name"]
        assert filled.isdisjoint(step["outs"]), step["name"]
        filled.update(step["outs"])
    assert filled == set(range(len(plan["slots"])))
    assert filled.issuperset(row["slot"] for row in plan["outputs"])


def test_inputs_arrive_and_outputs_are_left_in_main_memory():
    _, plan, _ = split_on(cpu_and_gpu(True), 3)
    for row in [*plan["inputs"], *plan["outputs"]]:
        assert plan["slots"][row["slot"]]["device"] == 0


def test_inputs_and_outputs_are_tasks_only_where_a_device_has_its_own_memory():
    mixed = make_problem(
        branchy(), cpu_and_gpu(True), PartitionOptions(cost_model=Millisecond())
    ).problem
    shared = make_problem(branchy(), two_cpus(), PartitionOptions(cost_model=Millisecond())).problem
    extra = set(mixed.graph.index) - set(shared.graph.index)
    assert extra == {input_task(0), input_task(1), output_task(0), output_task(1)}
    assert all(mixed.devices_for(task) == ("cpu",) for task in extra)


def test_a_weight_that_two_memories_need_is_a_constant_in_each():
    found = False
    for seed in range(6):
        _, plan, _ = split_on(cpu_and_gpu(True), seed)
        names = [row["name"] for row in plan["constants"]]
        assert len(names) == len(set(names))
        weights = {weight_name(name) for name in names}
        found = found or len(names) >= len(weights)
    assert found


def test_every_task_is_in_one_step():
    _, plan, _ = split_on(two_cpus(), 2)
    tasks = [task for step in plan["steps"] for task in tasks_of_step(step)]
    mod = lowered(branchy(), two_cpus())
    assert sorted(tasks) == sorted(extract_tasks(mod).graph.index)
    assert unit_problem(mod, two_cpus()).graph.index.keys() == set(tasks)


def two_cpus_and_gpu(joined: bool) -> Platform:
    """Two CPU places, joined or not, and a device with a memory of its own between them."""
    base = two_cpus()
    gpu = Device("gpu", target={"kind": "cuda", "arch": "sm_90"})
    pairs = [("big", "gpu"), ("gpu", "big"), ("little", "gpu"), ("gpu", "little")]
    pairs += [("big", "little"), ("little", "big")] if joined else []
    links = tuple(Link(src, dst, 1e10, 1e-5) for src, dst in pairs)
    return Platform((*base.devices, gpu), links, name="two-cpus-and-gpu")


@pytest.mark.parametrize("joined", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_what_two_cpu_places_need_of_a_gpu_is_copied_once(seed, joined):
    _, plan, schedule = split_on(two_cpus_and_gpu(joined), seed)
    assert any(copy.src == "gpu" for copy in schedule.copies)
    filled = {row["slot"] for row in [*plan["inputs"], *plan["constants"]]}
    for step in plan["steps"]:
        assert filled.issuperset(step["ins"]), step["name"]
        assert filled.isdisjoint(step["outs"]), step["name"]
        filled.update(step["outs"])


@pytest.mark.parametrize("seed", range(30))
def test_an_input_is_there_when_a_segment_begins_that_reads_it(seed):
    _, plan, _ = split_on(cpu_and_gpu(False), seed)
    filled = {row["slot"] for row in [*plan["inputs"], *plan["constants"]]}
    for step in plan["steps"]:
        assert filled.issuperset(step["ins"]), step["name"]
        filled.update(step["outs"])
