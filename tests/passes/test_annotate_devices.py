"""A schedule in the IR: devices, copies, order; and back again."""

from __future__ import annotations

from dataclasses import replace

import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.draws import draws
from tests.models import as_schedule, branchy, lowered, random_schedule, two_cpus, unit_problem
from tvm_hetero.errors import PlatformError, UsageError
from tvm_hetero.passes.annotate_devices import annotate_devices, make_vdevices, strip_devices
from tvm_hetero.passes.attributes import TASK_IDS
from tvm_hetero.passes.lowered_main import bindings, is_kernel_call, read_main
from tvm_hetero.passes.placed_model import problem_and_schedule
from tvm_hetero.relax.transform import AnnotateDevices

PLATFORM = two_cpus()
MODULE = lowered(branchy(), PLATFORM)
PROBLEM = unit_problem(MODULE, PLATFORM)


@I.ir_module(s_tir=True)
class Chain:
    """Two kernels in a row and a view between them."""

    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((4, 4), "float32"), b: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def negative(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = -a[vi]

    @R.function
    def main(x: R.Tensor((4, 4), "float32")) -> R.Tensor((16,), "float32"):
        cls = Chain
        with R.dataflow():
            lv = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4, 4), "float32"))
            lv1 = R.reshape(lv, R.shape([16]))
            gv = R.call_tir(cls.negative, (lv1,), out_ty=R.Tensor((16,), "float32"))
            R.output(gv)
        return gv


def body(mod: tvm.IRModule) -> list[tuple[str, int | None]]:
    """(operator, position of the device of its value) of every binding of `main`."""
    vdevices = list(mod.global_infos["vdevice"])

    def place(ty):
        ty = ty.fields[0] if isinstance(ty, relax.TupleType) else ty
        same = [i for i, v in enumerate(vdevices) if tvm_ffi.structural_equal(v, ty.vdevice)]
        return same[0]

    rows = []
    for var, value in bindings(mod["main"]):
        if is_kernel_call(value):
            rows.append((str(value.args[0].name_hint), place(value.ty_args[0])))
        elif isinstance(value, relax.Call):
            rows.append((str(value.op.name).removeprefix("relax."), place(var.ty)))
    return rows


def test_ir_before_and_after():
    problem = unit_problem(Chain, PLATFORM)
    steps = [("0.twice", "big", (0,)), ("1.negative", "little", (0,))]
    after = annotate_devices(Chain, problem, as_schedule(problem, steps))
    assert body(after) == [
        ("d0_twice", 0),
        ("to_vdevice", 1),  # the tensor moves, not its view ...
        ("reshape", 1),  # ... which is made again where it is read
        ("d1_negative", 1),
    ]
    assert list(after["main"].attrs[TASK_IDS]) == ["0.twice", "1.negative"]
    assert dict(after["d1_negative"].attrs["target"].attrs)["mcpu"] == "x86-64-v2"
    assert tvm_ffi.structural_equal(
        after["d0_twice"].body, Chain["twice"].body, map_free_vars=True
    ), "kernels are not scheduled by annotating"


def test_a_tensor_moves_once_however_many_read_it():
    steps = [
        (task, "big" if task.startswith("0.") else "little", (0,))
        for task in PROBLEM.graph.topological_order
    ]
    after = annotate_devices(MODULE, PROBLEM, as_schedule(PROBLEM, steps))
    readers = PROBLEM.graph.successors[steps[0][0]]
    copies = [name for name, _ in body(after) if name == "to_vdevice"]
    # The stem's output, which two tasks read, and input `y`, which arrives on the first device.
    assert len(readers) == 2
    assert len(copies) == 2


def test_calls_stand_in_the_order_of_the_schedule():
    schedule = random_schedule(PROBLEM, 3)
    after = annotate_devices(MODULE, PROBLEM, schedule)
    start = {e.task: e.start for e in schedule.executions}
    place = {e.task: PLATFORM.index[e.device] for e in schedule.executions}
    main = read_main(after)
    times = [start[task] for task in main.task_ids]
    assert times == sorted(times)
    devices = [device for name, device in body(after) if name.startswith("d")]
    assert devices == [place[task] for task in main.task_ids]


@settings(max_examples=draws(15), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_annotated_modules_are_well_formed_and_stripping_undoes_it(seed):
    schedule = random_schedule(PROBLEM, seed)
    after = annotate_devices(MODULE, PROBLEM, schedule)
    relax.analysis.well_formed(after)  # raises if it is not
    assert problem_and_schedule(after) == (PROBLEM, schedule)
    # Views may stand elsewhere than they stood, so both sides are written by the same writer.
    assert tvm_ffi.structural_equal(strip_devices(after), strip_devices(MODULE))
    assert sum(name == "to_vdevice" for name, _ in body(after)) >= len(schedule.copies)


def test_a_placed_module_can_be_placed_again():
    first = annotate_devices(MODULE, PROBLEM, random_schedule(PROBLEM, 1))
    other = random_schedule(PROBLEM, 2)
    again = annotate_devices(first, PROBLEM, other)
    assert tvm_ffi.structural_equal(again, annotate_devices(MODULE, PROBLEM, other))


def test_saved_and_loaded_it_is_the_same():
    after = annotate_devices(MODULE, PROBLEM, random_schedule(PROBLEM, 4))
    assert tvm_ffi.structural_equal(tvm.ir.load_json(tvm.ir.save_json(after)), after)


def test_it_is_a_pass():
    schedule = random_schedule(PROBLEM, 5)
    by_pass = tvm.transform.Sequential([AnnotateDevices(PROBLEM, schedule)])(MODULE)
    assert tvm_ffi.structural_equal(by_pass, annotate_devices(MODULE, PROBLEM, schedule))


def test_names_of_inputs_and_outputs_are_kept():
    after = annotate_devices(MODULE, PROBLEM, random_schedule(PROBLEM, 6))
    assert list(after["main"].attrs["hetero_input_names"]) == ["in/x", "y"]
    assert list(after["main"].attrs["hetero_output_names"]) == ["probabilities", "features"]


def test_a_schedule_of_another_problem_is_refused():
    schedule = replace(random_schedule(PROBLEM, 7), problem="0" * 64)
    with pytest.raises(UsageError, match="not of this module"):
        annotate_devices(MODULE, PROBLEM, schedule)


def test_an_element_on_two_devices_is_refused_by_name():
    schedule = random_schedule(PROBLEM, 8)
    first = schedule.executions[0]
    other = "little" if first.device == "big" else "big"
    twice = replace(schedule, executions=(*schedule.executions, replace(first, device=other)))
    with pytest.raises(UsageError, match=f"element 0 of task '{first.task}' twice"):
        annotate_devices(MODULE, PROBLEM, twice)


def test_a_schedule_that_lacks_an_element_is_refused():
    two = unit_problem(MODULE, PLATFORM, batch=2)
    schedule = replace(random_schedule(PROBLEM, 8), problem=two.digest)
    with pytest.raises(UsageError, match="not of this module"):
        annotate_devices(MODULE, two, schedule)


def test_a_module_without_placement_is_refused():
    with pytest.raises(UsageError, match="HeteroPartition"):
        problem_and_schedule(MODULE)


def test_a_device_without_target_is_refused_by_name():
    bare = replace(PLATFORM, devices=(replace(PLATFORM.devices[0], target=None),), links=())
    with pytest.raises(PlatformError, match=r"'big' has no target"):
        make_vdevices(bare)


def test_equal_targets_are_still_two_devices():
    twin = replace(PLATFORM.devices[1], target=PLATFORM.devices[0].target)
    one, two = make_vdevices(replace(PLATFORM, devices=(PLATFORM.devices[0], twin)))
    assert not tvm_ffi.structural_equal(one, two)
