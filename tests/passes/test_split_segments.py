"""Segments: where a module is cut, what goes in and out, and the modules for the devices."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax, tirx
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.addition_models import sums
from tests.draws import draws
from tests.models import (
    as_schedule,
    branchy,
    lowered,
    placed,
    random_schedule,
    two_cpus,
    unit_problem,
)
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.errors import ModelError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.kernel_symbols import network_kernels
from tvm_hetero.passes.lowered_main import TensorSource
from tvm_hetero.passes.split_segments import split_segments

PLATFORM = two_cpus()
MODULE = lowered(branchy(), PLATFORM)
PROBLEM = unit_problem(MODULE, PLATFORM)
ORDER = PROBLEM.graph.topological_order


def split_with(*little: int):
    """The segments when the tasks at the positions `little` of the order run on the second."""
    steps = [(t, "little" if i in little else "big", (0,)) for i, t in enumerate(ORDER)]
    return split_segments(annotate_devices(MODULE, PROBLEM, as_schedule(PROBLEM, steps)))


def test_one_device_is_one_segment():
    split = split_with()
    (segment,) = split.segments
    assert segment.calls == tuple(range(len(ORDER)))
    assert list(split.modules) == [0]
    assert split.copies == ()


def test_a_segment_ends_where_another_device_reads_and_begins_where_it_gives():
    # 0 stem, 1 left, 2 pool, 3 right, 4 concat and split, ...: left on the second device.
    left = 1
    assert "conv2d" in ORDER[left]
    split = split_with(left)
    runs = [(s.device, [split.main.task_ids[i] for i in s.calls]) for s in split.segments]
    stem, joined = runs[0][1], runs[-1][1]
    assert stem == [ORDER[0]]
    assert (1, [ORDER[left]]) in runs
    assert "concat" in joined[0]
    assert sorted(device for device, _ in runs) == [0, 0, 0, 1]


@settings(max_examples=draws(15), deadline=None)
@given(seed=st.integers(0, 10**6))
def test_segments_are_the_schedule(seed):
    split = split_segments(placed(seed, PLATFORM))
    main = split.main
    calls = [i for segment in split.segments for i in segment.calls]
    assert sorted(calls) == list(range(len(main.calls))), "every call in exactly one segment"
    segment_of = {i: s for s, segment in enumerate(split.segments) for i in segment.calls}
    for s, segment in enumerate(split.segments):
        assert list(segment.calls) == sorted(segment.calls)
        for i in segment.calls:
            for root in main.reads(main.calls[i]):
                if root.call is not None and segment_of[root.call] != s:
                    assert segment_of[root.call] < s, "what is read stands before"
                    assert root in split.segments[segment_of[root.call]].outs
                    assert root in segment.ins
        results = {root for root, _, _ in split.results}
        readers = {r: c.position for c in main.calls for r in main.reads(c)}
        for root in segment.outs:
            others = readers.get(root, root.call) not in segment.calls
            assert (
                others or root in results or any(root in other.ins for other in split.segments)
            ), "nothing leaves a segment that nobody wants"


def test_a_module_holds_the_kernels_of_its_device_alone():
    split = split_with(1, 4)
    assert sorted(split.modules) == [0, 1]
    for device, module in split.modules.items():
        called = {split.symbols[i] for s in split.segments if s.device == device for i in s.calls}
        assert {g.name_hint for g in module.get_global_vars()} == called
        for func in module.functions.values():
            assert isinstance(func, tirx.PrimFunc)
            assert not {"target", "hetero_kernel", "hetero_device"} & set(func.attrs.keys())


def test_weights_have_names_that_do_not_hang_on_the_placement():
    one, other = split_with(), split_with(1, 3)
    assert one.constants.keys() == other.constants.keys()
    assert all(one.constants[name].same_as(other.constants[name]) for name in one.constants)


def test_a_result_that_is_a_view_is_its_tensor_with_another_shape():
    split = split_with()
    (segment,) = split.segments
    (_, _, (rows, columns)), features = split.results[0], split.results[1]
    assert (rows, columns) == (1, 10)
    root, home, shape = features
    assert root in segment.outs
    assert split.main.type_of(root).shape.values[1] == 16
    assert (home, shape) == (0, (16, 64))


def two_outputs(second) -> object:
    """A softmax, and `second` of the input as another output; everything on one device."""
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            soft = builder.emit(relax.op.nn.softmax(x))
            out = builder.emit_output(relax.Tuple([soft, second(x)]))
        builder.emit_func_output(out)
    mod = lowered(builder.get(), PLATFORM)
    problem = unit_problem(mod, PLATFORM)
    steps = [(task, "big", (0,)) for task in problem.graph.topological_order]
    return annotate_devices(mod, problem, as_schedule(problem, steps))


def test_an_output_may_be_an_input():
    split = split_segments(two_outputs(lambda x: x))
    assert split.results[1][0] == TensorSource(None, 0)


def test_an_output_that_is_a_constant_is_copied_by_a_kernel():
    constant = relax.const(np.zeros(3, "float32"))
    split = split_segments(two_outputs(lambda x: constant))
    assert split.results[1][0].call is not None


@I.ir_module(s_tir=True)
class Alike:
    """A kernel has the name that another one has in a library if TVM's own loop nest is chosen."""

    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = a[vi] + a[vi]

    @T.prim_func(private=True, s_tir=True)
    def twice__default(a: T.Buffer((16,), "float32"), b: T.Buffer((16,), "float32")):
        for i in range(16):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = a[vi] * a[vi]

    @R.function
    def main(x: R.Tensor((16,), "float32")) -> R.Tensor((16,), "float32"):
        cls = Alike
        with R.dataflow():
            lv = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((16,), "float32"))
            gv = R.call_tir(cls.twice__default, (lv,), out_ty=R.Tensor((16,), "float32"))
            R.output(gv)
        return gv


def test_two_kernels_of_one_symbol_are_refused():
    problem = unit_problem(Alike, PLATFORM)
    costs = {task: dict(row) for task, row in problem.costs.items()}
    costs["0.twice"]["big"] = replace(costs["0.twice"]["big"], implementation="default")
    problem = replace(problem, costs=costs)
    steps = [(task, "big", (0,)) for task in problem.graph.topological_order]
    module = annotate_devices(Alike, problem, as_schedule(problem, steps))
    with pytest.raises(ModelError, match=r"both are 'twice__default' in a library; rename"):
        split_segments(module)
    own = {task: row["big"] for task, row in costs.items()}
    with pytest.raises(ModelError, match=r"both are 'twice__default' in a library; rename"):
        network_kernels(Alike, PLATFORM.device("big"), own)


def through_views(add, x, k):
    """A constant that is read through a view, and a kernel whose output nobody reads."""
    add(x, x)
    return add(x, k)


@pytest.mark.parametrize("seed", range(4))
def test_a_constant_behind_a_view_is_a_weight(seed):
    constant = np.arange(16, dtype="float32").reshape(4, 4)
    module = relax.transform.BindParams("main", {"k": constant})(sums(through_views))
    problem = unit_problem(module, PLATFORM)
    assert [task.weight_bytes for task in problem.graph.tasks] == [0, 64]
    module = annotate_devices(module, problem, random_schedule(problem, seed))
    assert len(split_segments(module).constants) == 1
    with Executor(build(module, single=False)) as executor:
        (out,) = executor.run(input0=np.ones(16, "float32"))
    assert (out.numpy() == 1 + constant.reshape(16)).all()
    (reference,) = ReferenceVM(module).run(np.ones(16, "float32"))
    assert (out.numpy() == reference).all()
