"""What the verifiers let through, and what they refuse: modules that a pass has broken."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
from tvm import relax

from tests.models import branchy, lowered, random_schedule, two_cpus, unit_problem
from tvm_hetero.errors import PassFault
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.attributes import DEVICE, TASK_IDS
from tvm_hetero.passes.extract_tasks import extract_tasks
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.placed_model import PlacedModel
from tvm_hetero.passes.split_segments import split_segments
from tvm_hetero.passes.verify import verify_lowered, verify_placed

PLATFORM = two_cpus()
MODULE = lowered(branchy(), PLATFORM)
PROBLEM = unit_problem(MODULE, PLATFORM)
BATCH = unit_problem(MODULE, PLATFORM, batch=3)


def check(module, problem, schedule):
    verify_placed(PlacedModel(module, problem, schedule), read_main(module))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("problem", [PROBLEM, BATCH], ids=["one element", "a batch"])
def test_what_the_passes_make_is_as_it_should_be(problem, seed):
    verify_lowered(MODULE, extract_tasks(MODULE))
    schedule = random_schedule(problem, seed)
    check(annotate_devices(MODULE, problem, schedule), problem, schedule)


def test_a_kernel_with_a_parameter_too_many_is_refused():
    tasks = extract_tasks(MODULE)
    var = tasks.main.calls[0].kernel
    func = MODULE[var]
    wrong = tvm.IRModule(dict(MODULE.functions))
    params = [*func.params, func.params[0]]
    wrong[var] = tvm.tirx.PrimFunc(params, func.body, attrs=func.attrs)
    with pytest.raises(PassFault, match=r"parameters is given .*please report it"):
        verify_lowered(wrong, tasks)


def test_a_call_of_a_kernel_that_is_gone_is_refused():
    tasks = extract_tasks(MODULE)
    gone = tasks.main.calls[0].kernel
    others = {var: func for var, func in MODULE.functions.items() if not var.same_as(gone)}
    with pytest.raises(PassFault, match="kernel that the module lacks"):
        verify_lowered(tvm.IRModule(others), tasks)


def test_tasks_that_are_not_the_calls_are_refused():
    tasks = extract_tasks(MODULE)
    names = ("twice", *tasks.main.task_ids[1:])
    other = replace(tasks, main=replace(tasks.main, task_ids=names))
    with pytest.raises(PassFault, match="tasks are not the calls"):
        verify_lowered(MODULE, other)
    twice = replace(tasks.main, task_ids=(names[1], *names[1:]))
    with pytest.raises(PassFault, match="two calls of kernels are one task"):
        verify_lowered(MODULE, replace(tasks, main=twice))


def test_a_module_that_is_placed_by_another_schedule_is_refused():
    one = random_schedule(PROBLEM, 1)
    other = next(
        schedule
        for schedule in (random_schedule(PROBLEM, seed) for seed in range(2, 99))
        if schedule.placement != one.placement
    )
    placed = annotate_devices(MODULE, PROBLEM, one)
    with pytest.raises(PassFault, match=r"a call is on .* where the schedule has"):
        check(placed, PROBLEM, other)
    with pytest.raises(PassFault, match="the schedule has what the module does not compute"):
        whole = random_schedule(BATCH, 1)
        row = whole.executions[0]
        more = replace(row, elements=(7,))
        schedule = replace(whole, executions=(*whole.executions, more))
        check(annotate_devices(MODULE, BATCH, whole), BATCH, schedule)


def test_a_call_that_is_there_twice_is_refused():
    schedule = random_schedule(PROBLEM, 1)
    placed = annotate_devices(MODULE, PROBLEM, schedule)
    names = [str(name) for name in placed["main"].attrs[TASK_IDS]]
    placed["main"] = placed["main"].with_attr(TASK_IDS, [names[1], *names[1:]])
    with pytest.raises(PassFault, match="where the schedule has"):
        check(placed, PROBLEM, schedule)


def test_a_kernel_for_another_device_than_its_outputs_are_on_is_refused():
    schedule = random_schedule(PROBLEM, 1)
    placed = annotate_devices(MODULE, PROBLEM, schedule)
    var = next(v for v, f in placed.functions.items() if not isinstance(f, relax.Function))
    other = {"big": "little", "little": "big"}[str(placed[var].attrs[DEVICE])]
    placed[var] = placed[var].with_attr(DEVICE, other)
    with pytest.raises(PassFault, match=f"an output of a kernel for {other} is on"):
        check(placed, PROBLEM, schedule)
    placed[var] = placed[var].with_attr(DEVICE, "nowhere")
    with pytest.raises(PassFault, match="no device of the platform"):
        check(placed, PROBLEM, schedule)


def test_a_placed_module_that_was_changed_is_refused_before_it_is_cut():
    schedule = random_schedule(PROBLEM, 1)
    placed = annotate_devices(MODULE, PROBLEM, schedule)
    split_segments(placed)
    names = [str(name) for name in placed["main"].attrs[TASK_IDS]]
    placed["main"] = placed["main"].with_attr(TASK_IDS, names[::-1])
    with pytest.raises(PassFault, match="changed the module since it was partitioned"):
        split_segments(placed)
