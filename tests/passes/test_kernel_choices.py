"""What costs say about implementations reaches the copies of the kernels, and their build."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import s_tir

from tests.models import branchy, branchy_inputs, lowered, random_schedule, two_cpus, unit_problem
from tvm_hetero.compiler.build import build
from tvm_hetero.cost_models.store import CostStore, Tuning
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.cost_models.store.traces import with_stored_traces
from tvm_hetero.devices.target import device_target
from tvm_hetero.executor.executor import Executor
from tvm_hetero.kernels.tir.implementation_attr import (
    DEFAULT,
    RULE,
    TUNED,
    implementation_of,
    trace_of,
)
from tvm_hetero.kernels.tuning.trace import trace_text
from tvm_hetero.passes.annotate_devices import annotate_devices, strip_devices
from tvm_hetero.passes.attributes import DEVICE, KERNEL
from tvm_hetero.passes.kernel_choices import choices_of, traces_of, with_choices, with_traces
from tvm_hetero.problem import Problem
from tvm_hetero.problem.implementation_choice import Choice, Timing

PLATFORM = two_cpus()
MODULE = lowered(branchy(), PLATFORM)
PLAIN = unit_problem(MODULE, PLATFORM)
SCHEDULE_SEED = 1
X, Y = branchy_inputs()
INPUTS = {"in/x": X, "y": Y}


def problem_of(ways: dict[str, str]) -> Problem:
    """`PLAIN` with costs on device ``big`` that are those of other implementations."""
    costs = {task: dict(row) for task, row in PLAIN.costs.items()}
    for task in PLAIN.tasks:
        if task.op in ways:
            row = costs[task.id]
            row["big"] = replace(row["big"], implementation=ways[task.op])
    return replace(PLAIN, costs=costs)


def copies(mod: tvm.IRModule) -> dict[tuple[str, str], tvm.tirx.PrimFunc]:
    """The copy of each kernel for each device."""
    funcs = [f for f in mod.functions.values() if isinstance(f, tvm.tirx.PrimFunc)]
    return {(str(f.attrs[KERNEL]), str(f.attrs[DEVICE])): f for f in funcs}


def outputs(mod: tvm.IRModule) -> list[np.ndarray]:
    with Executor(build(mod, single=False)) as executor:
        return [out.numpy() for out in executor.run(INPUTS)]


def a_trace(kernel: str) -> str:
    """A schedule of a kernel: the outermost loop of its first block, cut in two."""
    sch = s_tir.Schedule(tvm.IRModule({"main": MODULE[kernel]}))
    block = sch.get_child_blocks(sch.get_sblock("root"))[0]
    sch.split(sch.get_loops(block)[-1], [None, 2])
    return trace_text(sch)


def test_copies_say_what_their_cost_is_that_of_and_compute_the_same() -> None:
    pools = [task.op for task in PLAIN.tasks if "pool" in task.op]
    kernel = pools[0]
    trace = a_trace(kernel)
    ways = dict.fromkeys({task.op for task in PLAIN.tasks} - {kernel}, DEFAULT) | {kernel: TUNED}
    problem = problem_of(ways)
    module = with_choices(MODULE, traces={kernel: {"big": trace}})
    placed = annotate_devices(module, problem, random_schedule(problem, SCHEDULE_SEED))
    for (name, device), func in copies(placed).items():
        expected = ways[name] if device == "big" else RULE
        assert implementation_of(func) == expected
        assert trace_of(func) == (trace if expected == TUNED else None)
    assert {TUNED, DEFAULT, RULE} == {implementation_of(f) for f in copies(placed).values()}
    for ours, theirs in zip(
        outputs(placed),
        outputs(annotate_devices(MODULE, PLAIN, random_schedule(PLAIN, SCHEDULE_SEED))),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert tvm_ffi.structural_equal(
        strip_devices(placed), with_choices(strip_devices(MODULE), traces={kernel: {"big": trace}})
    )


def test_a_placed_module_keeps_its_choices_when_it_is_placed_again() -> None:
    choices = (Choice("conv2d", "big", "packed", "rule", {"rule": Timing(1e-3)}),)
    module = with_choices(MODULE, choices)
    first = annotate_devices(module, PLAIN, random_schedule(PLAIN, 1))
    again = annotate_devices(first, PLAIN, random_schedule(PLAIN, 2))
    assert choices_of(first) == choices_of(again) == choices_of(strip_devices(again)) == choices
    assert choices_of(MODULE) == choices_of(with_choices(module)) == ()


def test_a_trace_that_the_module_lacks_is_looked_for_in_the_store(own_cache) -> None:
    kernel = next(task.op for task in PLAIN.tasks if "pool" in task.op)
    problem = problem_of({kernel: TUNED})
    task = next(t.id for t in problem.tasks if t.op == kernel)
    seed = next(s for s in range(99) if random_schedule(problem, s).placement[task] == ("big",))
    schedule = random_schedule(problem, seed)
    with pytest.warns(UserWarning, match="whose trace the module lacks"):
        without = annotate_devices(MODULE, problem, schedule)
    assert implementation_of(copies(without)[kernel, "big"]) == RULE
    target = str(device_target(PLATFORM.devices[0]))
    CostStore().set_tuning(kernel_key(MODULE[kernel]), target, Tuning("[1]", 1e-3, 2e-3, 4))
    found = annotate_devices(with_stored_traces(MODULE, problem), problem, schedule)
    assert trace_of(copies(found)[kernel, "big"]) == "[1]"


def test_traces_that_a_module_has_are_not_replaced_by_stored_ones(own_cache) -> None:
    kernel = next(task.op for task in PLAIN.tasks if "pool" in task.op)
    problem = problem_of({kernel: TUNED})
    target = str(device_target(PLATFORM.devices[0]))
    CostStore().set_tuning(kernel_key(MODULE[kernel]), target, Tuning("[1]", 1e-3, 2e-3, 4))
    own = with_choices(MODULE, traces={kernel: {"big": "[2]"}, "another": {"big": "[3]"}})
    assert with_stored_traces(own, problem).same_as(own)
    assert with_stored_traces(MODULE, PLAIN).same_as(MODULE)
    assert traces_of(with_traces(own, {kernel: {"big": "[4]", "little": "[5]"}})) == {
        kernel: {"big": "[2]", "little": "[5]"},
        "another": {"big": "[3]"},
    }
