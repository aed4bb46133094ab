"""Steps and states, seen: a placed module in full, and what each device does of it."""

from __future__ import annotations

import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.models import as_schedule, unit_problem
from tests.passes.test_placing_ir import PLATFORM, without_documents
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.split_segments import split_segments


@I.ir_module(s_tir=True)
class Row:
    """Five kernels: the second one's result is read by the third and by the fourth."""

    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = a[vi] * T.float32(2)

    @R.function
    def main(x: R.Tensor((4,), "float32")):
        cls = Row
        with R.dataflow():
            a = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), "float32"))
            b = R.call_tir(cls.twice, (a,), out_ty=R.Tensor((4,), "float32"))
            c = R.call_tir(cls.twice, (b,), out_ty=R.Tensor((4,), "float32"))
            d = R.call_tir(cls.twice, (b,), out_ty=R.Tensor((4,), "float32"))
            e = R.call_tir(cls.twice, (d,), out_ty=R.Tensor((4,), "float32"))
            R.output(c, e)
        return c, e


def test_a_step_ends_where_another_device_waits() -> None:
    """c runs on the other device: it need not wait for d and e, only for b."""
    problem = unit_problem(Row, PLATFORM)
    devices = {"2.twice": "little"}
    steps = [(task, devices.get(task, "big"), (0,)) for task in problem.graph.topological_order]
    split = split_segments(annotate_devices(Row, problem, as_schedule(problem, steps)))
    done = [(s.device, [split.main.task_ids[call] for call in s.calls]) for s in split.segments]
    assert sorted(done) == [
        (0, ["0.twice", "1.twice"]),
        (0, ["3.twice", "4.twice"]),
        (1, ["2.twice"]),
    ]


def test_on_one_device_all_is_one_step() -> None:
    problem = unit_problem(Row, PLATFORM)
    steps = [(task, "big", (0,)) for task in problem.graph.topological_order]
    split = split_segments(annotate_devices(Row, problem, as_schedule(problem, steps)))
    assert [segment.calls for segment in split.segments] == [(0, 1, 2, 3, 4)]


@I.ir_module(s_tir=True)
class Keeping:
    """`total` is a state: a kernel adds x to it in place, and it is there in the next run."""

    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = a[vi] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def add(
        a: T.Buffer((4,), "float32"), total: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")
    ):
        for i in range(4):
            with T.sblock("total"):
                vi = T.axis.remap("S", [i])
                total[vi] = total[vi] + a[vi]
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = total[vi]

    @R.function
    def main(x: R.Tensor((4,), "float32"), total: R.Tensor((4,), "float32")):
        R.func_attr({"hetero_input_names": ["x", "total"], "hetero_states": ["total"]})
        cls = Keeping
        with R.dataflow():
            lv = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((4,), "float32"))
            gv = R.call_tir(cls.add, (lv, total), out_ty=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


@I.ir_module(s_tir=True)
class Kept:
    """x arrives on the first device; the state is where its kernel runs, and is never copied."""

    I.module_global_infos({
        "vdevice": [
            I.vdevice({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}, 0, "global"),
            I.vdevice({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}, 1, "global"),
        ]
    })  # fmt: skip

    @T.prim_func(private=True, s_tir=True)
    def d0_twice(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        T.func_attr({
            "hetero_device": "big", "hetero_kernel": "twice",
            "target": T.target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}),
        })  # fmt: skip
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = a[vi] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def d1_add(
        a: T.Buffer((4,), "float32"), total: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")
    ):
        T.func_attr({
            "hetero_device": "little", "hetero_kernel": "add",
            "target": T.target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}),
        })  # fmt: skip
        for i in range(4):
            with T.sblock("total"):
                vi = T.axis.remap("S", [i])
                total[vi] = total[vi] + a[vi]
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = total[vi]

    @R.function
    def main(
        x: R.Tensor((4,), "float32", "llvm:0:global"),
        total: R.Tensor((4,), "float32", "llvm:1:global"),
    ):
        R.func_attr({
            "hetero_input_names": ["x", "total"],
            "hetero_states": ["total"],
            "hetero_tasks": ["0.twice", "1.add"],
        })  # fmt: skip
        cls = Kept
        with R.dataflow():
            lv = R.call_tir(cls.d0_twice, (x,), out_ty=R.Tensor((4,), "float32", "llvm:0:global"))
            lv1: R.Tensor((4,), "float32", "llvm:1:global") = R.to_vdevice(
                lv, dst_vdevice="llvm:1:global"
            )
            lv2 = R.call_tir(
                cls.d1_add, (lv1, total), out_ty=R.Tensor((4,), "float32", "llvm:1:global")
            )
            gv: R.Tensor((4,), "float32", "llvm:1:global") = lv2
            R.output(gv)
        return gv


def test_a_state_lives_where_its_kernel_runs() -> None:
    problem = unit_problem(Keeping, PLATFORM)
    steps = [("0.twice", "big", (0,)), ("1.add", "little", (0,))]
    placed = annotate_devices(Keeping, problem, as_schedule(problem, steps))
    tvm.ir.assert_structural_equal(without_documents(placed), Kept)
