"""Plans: slots shared where memory is shared, copies where it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.models import branchy, lowered, random_schedule, two_cpus, unit_problem
from tvm_hetero.partition import make_problem
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.io_tasks import input_task, output_task
from tvm_hetero.passes.split_segments import split_segments
from tvm_hetero.platform import Device, Link, Platform
from tvm_hetero.problem import Cost
from tvm_hetero.runtime import native
from tvm_hetero.runtime.plan import make_plan, tasks_of_step, weight_name


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


def split_on(platform: Platform, seed: int):
    prepared = make_problem(branchy(), platform, cost_model=Millisecond())
    schedule = random_schedule(prepared.problem, seed)
    split = split_segments(annotate_devices(prepared.module, prepared.problem, schedule))
    return split, make_plan(split, platform), schedule


def test_cpu_places_share_every_slot():
    _, plan, schedule = split_on(two_cpus(), 1)
    assert schedule.copies, "this placement has to move something for the test to mean anything"
    assert {step["kind"] for step in plan["steps"]} == {"call"}
    assert [(d["dl_type"], d["dl_id"]) for d in plan["devices"]] == [(1, 0)]
    names = [slot["name"] for slot in plan["slots"]]
    assert len(names) == len(set(names))
    assert [worker["cores"] for worker in plan["workers"]] == [
        list(device.cores) for device in two_cpus().devices
    ] or len(plan["workers"]) == 2
    native.create(plan).close()


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
    mixed = make_problem(branchy(), cpu_and_gpu(True), cost_model=Millisecond()).problem
    shared = make_problem(branchy(), two_cpus(), cost_model=Millisecond()).problem
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
