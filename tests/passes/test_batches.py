"""The program of a batch: every element where its execution is, and one element's back again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.draws import draws
from tests.models import (
    as_schedule,
    branchy,
    lowered,
    random_schedule,
    two_cpus,
    unit_problem,
    with_sizes,
)
from tests.passes.test_annotate_devices import Chain, body
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import UsageError
from tvm_hetero.passes.annotate_devices import annotate_devices, strip_devices
from tvm_hetero.passes.attributes import TASK_IDS
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.plan.element_names import batch_of, plain_task, split_task
from tvm_hetero.problem import Objective, Problem
from tvm_hetero.problem.schedule import Schedule
from tvm_hetero.solvers import solve

PLATFORM = two_cpus()
MODULE = lowered(branchy(), PLATFORM)


def text(mod: tvm.IRModule) -> list[str]:
    """``main`` in TVM's own words, a line each, without types and attributes of its bindings."""
    lines = []
    for block in mod["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            if isinstance(value, relax.Call):
                args = [value.args[0], *value.args[1]] if len(value.args) == 2 else value.args
                name = getattr(value.op, "name", "").removeprefix("relax.")
                if name == "reshape":
                    args = value.args[:1]
                words = ", ".join(getattr(a, "name_hint", None) or a.name for a in args)
                lines.append(f"{binding.var.name} = {name}({words})")
            elif isinstance(value, relax.TupleGetItem):
                lines.append(f"{binding.var.name} = {value.tuple_value.name}[{value.index}]")
            else:
                lines.append(f"return {', '.join(field.name for field in value.fields)}")
    return lines


def place(batch: int, steps, kind: str = "latency") -> tvm.IRModule:
    """`Chain` placed by hand."""
    problem = unit_problem(Chain, PLATFORM, batch).with_objective(Objective(kind, batch))
    return annotate_devices(Chain, problem, as_schedule(problem, steps))


def test_a_batch_divided_over_two_devices():
    """Data parallelism: each device runs the whole model on its element."""
    after = place(
        2,
        [
            ("0.twice", "big", (0,)),
            ("0.twice", "little", (1,)),
            ("1.negative", "big", (0,)),
            ("1.negative", "little", (1,)),
        ],
    )
    assert text(Chain) == [
        "lv = call_tir(twice, x)",
        "lv1 = reshape(lv)",
        "gv = call_tir(negative, lv1)",
    ]
    assert text(after) == [
        "lv = call_tir(d0_twice, x_0)",
        "lv1 = to_vdevice(x_1)",  # inputs arrive on the first device
        "lv2 = call_tir(d1_twice, lv1)",
        "lv11 = reshape(lv)",
        "gv = call_tir(d0_negative, lv11)",
        "lv12 = reshape(lv2)",
        "gv1 = call_tir(d1_negative, lv12)",
        "return gv, gv1",
    ]
    attrs = after["main"].attrs
    assert list(attrs[TASK_IDS]) == ["0.twice#0", "0.twice#1", "1.negative#0", "1.negative#1"]
    assert list(attrs["hetero_input_names"]) == ["input0#0", "input0#1"]
    assert list(attrs["hetero_output_names"]) == ["output0#0", "output0#1"]


def test_a_model_divided_and_its_batch_too():
    """Model and data parallelism at once: only what is read elsewhere is copied."""
    after = place(
        3,
        [
            ("0.twice", "big", (0, 1, 2)),
            ("1.negative", "little", (1,)),
            ("1.negative", "big", (0, 2)),
        ],
    )
    assert text(after) == [
        "lv = call_tir(d0_twice, x_0)",
        "lv1 = call_tir(d0_twice, x_1)",
        "lv2 = call_tir(d0_twice, x_2)",
        "lv11 = reshape(lv)",
        "gv = call_tir(d0_negative, lv11)",
        "lv12 = reshape(lv2)",
        "gv1 = call_tir(d0_negative, lv12)",
        "lv3 = to_vdevice(lv1)",  # the schedule copies the whole execution
        "lv13 = reshape(lv3)",
        "gv2 = call_tir(d1_negative, lv13)",
        "return gv, gv2, gv1",
    ]


@pytest.mark.parametrize("kind", ["latency", "throughput"])
def test_on_one_device_an_element_goes_through_before_the_next_one(kind):
    after = place(2, [("0.twice", "big", (0, 1)), ("1.negative", "big", (0, 1))], kind)
    calls = ["0.twice#0", "1.negative#0", "0.twice#1", "1.negative#1"]
    assert list(after["main"].attrs[TASK_IDS]) == calls


def test_but_not_where_another_device_waits_or_is_waited_for():
    """The stem goes to both branches, of which one is elsewhere, and they are joined again."""
    problem = unit_problem(MODULE, PLATFORM, 2)
    order = problem.graph.topological_order
    stem, left, pool, right, joined = order[:5]
    assert set(problem.graph.predecessors[joined]) == {left, right}
    elsewhere = {pool, right}
    steps = [(task, "little" if task in elsewhere else "big", (0, 1)) for task in order]
    after = annotate_devices(MODULE, problem, as_schedule(problem, steps))
    own = [task for task in after["main"].attrs[TASK_IDS] if plain_task(task) not in elsewhere]
    assert own[:4] == [f"{stem}#0", f"{stem}#1", f"{left}#0", f"{left}#1"]
    rest = [task for task in own[4:] if task.endswith("#0")]
    assert own[4:] == [*rest, *(task.replace("#0", "#1") for task in rest)]


def test_elements_that_are_computed_at_once():
    """Four elements on one device, of which kernels take two at once, or one."""
    problem = unit_problem(Chain, PLATFORM, 3)
    costs = {task: dict(row) for task, row in problem.costs.items()}
    costs["1.negative"]["big"] = replace(costs["1.negative"]["big"], sizes=(1, 2))
    problem = replace(problem, costs=costs)
    steps = [("0.twice", "big", (0, 1, 2)), ("1.negative", "big", (0, 1, 2))]
    after = annotate_devices(Chain, problem, as_schedule(problem, steps))
    assert text(after) == [
        "lv = call_tir(d0_twice, x_0)",
        "lv1 = call_tir(d0_twice, x_1)",
        "lv2 = call_tir(d0_twice, x_2)",
        "lv11 = reshape(lv)",
        "lv12 = reshape(lv1)",
        "gv = call_tir(d0_negative_x2, lv11, lv12)",
        "lv13 = reshape(lv2)",
        "gv1 = call_tir(d0_negative, lv13)",
        "lv3 = gv[0]",
        "lv4 = gv[1]",
        "return lv3, lv4, gv1",
    ]
    assert list(after["main"].attrs[TASK_IDS])[3:] == ["1.negative#0,1", "1.negative#2"]
    main = read_main(after)
    assert [call.elements for call in main.calls] == [(0,), (1,), (2,), (0, 1), (2,)]
    names = [main.tensor_name(main.root(result)) for result in main.results()]
    assert names == ["1.negative#0", "1.negative#1", "1.negative#2"]
    assert tvm_ffi.structural_equal(strip_devices(after), strip_devices(Chain))


def with_twos(mod: tvm.IRModule, *sizes: int) -> tuple[Problem, Schedule]:
    """Two elements on the big core, and a cost of its first task for so many at once."""
    problem = unit_problem(mod, PLATFORM, 2)
    costs = {task: dict(row) for task, row in problem.costs.items()}
    costs["0.twice"]["big"] = replace(costs["0.twice"]["big"], sizes=(1, *sizes))
    problem = replace(problem, costs=costs)
    steps = [(task, "big", (0, 1)) for task in ("0.twice", "1.negative")]
    return problem, as_schedule(problem, steps)


def test_a_kernel_that_cannot_be_had_for_several_elements_is_named():
    (twice,) = [gv for gv in Chain.get_global_vars() if gv.name_hint == "twice"]
    mod = tvm.IRModule(dict(Chain.functions.items()))
    mod[twice] = mod[twice].with_attr("tirx.is_scheduled", True)
    with pytest.raises(UsageError, match=r"'twice' on device 'big'.* 2 elements at once.*sizes"):
        annotate_devices(mod, *with_twos(mod, 2))


def test_kernels_for_more_elements_than_a_batch_has_are_not_built():
    executable = build(annotate_devices(Chain, *with_twos(Chain, 2, 1_000_000)))
    kernels = {
        call.kernel for step in executable.variants["partition"].plan.steps for call in step.calls
    }
    assert kernels == {"twice__x2", "negative"}


def last_end(mod: tvm.IRModule) -> float:
    """When the last call ends if each device takes its calls in turn, a millisecond each."""
    main = read_main(mod)
    places = [place for name, place in body(mod) if name.startswith("d")]
    free: dict[int | None, float] = {}
    ends: list[float] = []
    for call, device in zip(main.calls, places, strict=True):
        inputs = [ends[root.call] for root in main.reads(call) if root.call is not None]
        free[device] = max([free.get(device, 0.0), *inputs]) + 1e-3
        ends.append(free[device])
    return max(ends)


@settings(max_examples=draws(25), deadline=None)
@given(batch=st.integers(2, 4), seed=st.integers(0, 10**6), named=st.booleans())
def test_placed_it_is_well_formed_and_stripping_gives_one_element(batch, seed, named):
    module = MODULE if named else Chain
    problem = with_sizes(unit_problem(module, PLATFORM, batch), module, seed)
    schedule = random_schedule(problem, seed)
    after = annotate_devices(module, problem, schedule)
    relax.analysis.well_formed(after)  # raises if it is not
    assert tvm_ffi.structural_equal(strip_devices(after), strip_devices(module))
    main = read_main(after)
    assert batch_of(main.task_ids) == batch
    ran = [(plain_task(name), call) for name, call in zip(main.task_ids, main.calls, strict=True)]
    homes = {(e.task, n): PLATFORM.index[e.device] for e in schedule.executions for n in e.elements}
    assert sorted((task, e) for task, call in ran for e in call.elements) == sorted(homes)
    devices = [device for name, device in body(after) if name.startswith("d")]
    assert [{homes[task, e] for e in call.elements} for task, call in ran] == [
        {device} for device in devices
    ]
    sizes = [
        (e.task, size)
        for e in schedule.executions
        for size in problem.costs[e.task][e.device].calls_of(len(e.elements))
    ]
    assert sorted((task, len(call.elements)) for task, call in ran) == sorted(sizes)


HALVES = (("big", (0, 1)), ("little", (2, 3)))


@settings(max_examples=draws(25), deadline=None)
@given(data=st.data())
def test_no_order_of_elements_makes_anything_later(data):
    """Batches that are shared by halves, which some tasks exchange: many stretches."""
    problem = unit_problem(MODULE, PLATFORM, 4)
    exchanged = (("little", (0, 1)), ("big", (2, 3)))
    ways = st.sampled_from([HALVES, HALVES, exchanged, (("big", (0, 1)), ("big", (2, 3)))])
    steps = [(t, *part) for t in problem.graph.topological_order for part in data.draw(ways)]
    schedule = as_schedule(problem, steps)
    assert last_end(annotate_devices(MODULE, problem, schedule)) <= schedule.value + 1e-9


def test_shared_by_halves_each_device_takes_one_element_after_the_other():
    problem = unit_problem(MODULE, PLATFORM, 4)
    steps = [(task, *half) for task in problem.graph.topological_order for half in HALVES]
    after = annotate_devices(MODULE, problem, as_schedule(problem, steps))
    elements = [split_task(task)[1][0] for task in after["main"].attrs[TASK_IDS]]
    for half in ((0, 1), (2, 3)):
        own = [element for element in elements if element in half]
        assert own == sorted(own)


def test_a_placed_batch_can_be_placed_for_another_batch():
    two, three = (unit_problem(MODULE, PLATFORM, batch) for batch in (2, 3))
    first = annotate_devices(MODULE, two, random_schedule(two, 1))
    again = annotate_devices(first, three, random_schedule(three, 2))
    fresh = annotate_devices(MODULE, three, random_schedule(three, 2))
    assert tvm_ffi.structural_equal(again["main"], fresh["main"], map_free_vars=True)


def test_saved_and_loaded_a_batch_is_the_same():
    problem = unit_problem(Chain, PLATFORM, 2)
    after = annotate_devices(Chain, problem, random_schedule(problem, 4))
    loaded = tvm.ir.load_json(tvm.ir.save_json(after))
    assert tvm_ffi.structural_equal(loaded, after)
    assert tvm_ffi.structural_equal(strip_devices(loaded), strip_devices(Chain))


def test_names_of_inputs_and_outputs_bear_the_element():
    problem = unit_problem(MODULE, PLATFORM, 2)
    after = annotate_devices(MODULE, problem, random_schedule(problem, 6))
    attrs = after["main"].attrs
    assert list(attrs["hetero_input_names"]) == ["in/x#0", "y#0", "in/x#1", "y#1"]
    outputs = ["probabilities#0", "features#0", "probabilities#1", "features#1"]
    assert list(attrs["hetero_output_names"]) == outputs


def test_the_best_single_device_of_a_batch_is_a_placement_like_any_other():
    problem = unit_problem(MODULE, PLATFORM, 2)
    after = annotate_devices(MODULE, problem, solve(problem, "single"))
    tasks = list(after["main"].attrs[TASK_IDS])
    half = len(tasks) // 2
    assert {split_task(task)[1] for task in tasks[:half]} == {(0,)}
    assert [plain_task(task) for task in tasks[:half]] == [plain_task(t) for t in tasks[half:]]
