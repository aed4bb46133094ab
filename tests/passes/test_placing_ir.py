"""Placing, seen: lowered modules, and what they are on two devices, in full."""

from __future__ import annotations

from dataclasses import replace

import tvm
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tests.models import as_schedule, unit_problem
from tvm_hetero.passes.annotate_devices import annotate_devices, strip_devices
from tvm_hetero.passes.attributes import PROBLEM, SCHEDULE
from tvm_hetero.passes.lowered_main import Root
from tvm_hetero.passes.split_segments import Segment, split_segments
from tvm_hetero.platform import Device, Link, Platform

BIG, LITTLE = ({"kind": "llvm", "mcpu": f"x86-64-v{level}", "num-cores": 1} for level in (3, 2))
PLATFORM = Platform(
    (Device("big", target=BIG), Device("little", target=LITTLE)),
    (Link("big", "little", 1e10), Link("little", "big", 1e10)),
)


@I.ir_module(s_tir=True)
class Lowered:
    """Two kernels in a row, and a view between them."""

    @T.prim_func(private=True, s_tir=True)
    def twice(a: T.Buffer((2, 2), "float32"), b: T.Buffer((2, 2), "float32")):
        for i, j in T.grid(2, 2):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def negative(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = -a[vi]

    @R.function
    def main(x: R.Tensor((2, 2), "float32")) -> R.Tensor((4,), "float32"):
        cls = Lowered
        with R.dataflow():
            lv = R.call_tir(cls.twice, (x,), out_ty=R.Tensor((2, 2), "float32"))
            lv1 = R.reshape(lv, R.shape([4]))
            gv = R.call_tir(cls.negative, (lv1,), out_ty=R.Tensor((4,), "float32"))
            R.output(gv)
        return gv


@I.ir_module(s_tir=True)
class Placed:
    """The tensor moves, not its view, which is made where it is read.

    Each device has kernels of its own. That of the first task is TVM's own loop nest, since its
    cost is that of this implementation.
    """

    I.module_global_infos({
        "vdevice": [
            I.vdevice({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}, 0, "global"),
            I.vdevice({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}, 1, "global"),
        ]
    })  # fmt: skip

    @T.prim_func(private=True, s_tir=True)
    def d0_twice(a: T.Buffer((2, 2), "float32"), b: T.Buffer((2, 2), "float32")):
        T.func_attr({
            "hetero_device": "big", "hetero_kernel": "twice",
            "target": T.target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}),
            "tvm_hetero.implementation": "default",
        })  # fmt: skip
        for i, j in T.grid(2, 2):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def d1_negative(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        T.func_attr({
            "hetero_device": "little", "hetero_kernel": "negative",
            "target": T.target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}),
        })  # fmt: skip
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = -a[vi]

    @R.function
    def main(
        x: R.Tensor((2, 2), "float32", "llvm:0:global"),
    ) -> R.Tensor((4,), "float32", "llvm:1:global"):
        R.func_attr({"hetero_tasks": ["0.twice", "1.negative"]})
        cls = Placed
        with R.dataflow():
            lv = R.call_tir(cls.d0_twice, (x,), out_ty=R.Tensor((2, 2), "float32", "llvm:0:global"))
            lv1: R.Tensor((2, 2), "float32", "llvm:1:global") = R.to_vdevice(
                lv, dst_vdevice="llvm:1:global"
            )
            lv2: R.Tensor((4,), "float32", "llvm:1:global") = R.reshape(lv1, R.shape([4]))
            lv3 = R.call_tir(
                cls.d1_negative, (lv2,), out_ty=R.Tensor((4,), "float32", "llvm:1:global")
            )
            gv: R.Tensor((4,), "float32", "llvm:1:global") = lv3
            R.output(gv)
        return gv


@I.ir_module(s_tir=True)
class Batch:
    """Two elements on one device: each goes through all of its tasks before the next one does."""

    I.module_global_infos({
        "vdevice": [
            I.vdevice({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}, 0, "global"),
            I.vdevice({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1}, 1, "global"),
        ]
    })  # fmt: skip

    @T.prim_func(private=True, s_tir=True)
    def d0_twice(a: T.Buffer((2, 2), "float32"), b: T.Buffer((2, 2), "float32")):
        T.func_attr({
            "hetero_device": "big", "hetero_kernel": "twice",
            "target": T.target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}),
        })  # fmt: skip
        for i, j in T.grid(2, 2):
            with T.sblock("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                b[vi, vj] = a[vi, vj] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def d0_negative(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        T.func_attr({
            "hetero_device": "big", "hetero_kernel": "negative",
            "target": T.target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}),
        })  # fmt: skip
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = -a[vi]

    @R.function
    def main(
        x_0: R.Tensor((2, 2), "float32", "llvm:0:global"),
        x_1: R.Tensor((2, 2), "float32", "llvm:0:global"),
    ):
        R.func_attr({
            "hetero_input_names": ["input0#0", "input0#1"],
            "hetero_one_result": True,
            "hetero_output_names": ["output0#0", "output0#1"],
            "hetero_tasks": ["0.twice#0", "1.negative#0", "0.twice#1", "1.negative#1"],
        })  # fmt: skip
        cls = Batch
        with R.dataflow():
            a = R.call_tir(
                cls.d0_twice, (x_0,), out_ty=R.Tensor((2, 2), "float32", "llvm:0:global")
            )
            b: R.Tensor((4,), "float32", "llvm:0:global") = R.reshape(a, R.shape([4]))
            c = R.call_tir(cls.d0_negative, (b,), out_ty=R.Tensor((4,), "float32", "llvm:0:global"))
            d = R.call_tir(
                cls.d0_twice, (x_1,), out_ty=R.Tensor((2, 2), "float32", "llvm:0:global")
            )
            e: R.Tensor((4,), "float32", "llvm:0:global") = R.reshape(d, R.shape([4]))
            f = R.call_tir(cls.d0_negative, (e,), out_ty=R.Tensor((4,), "float32", "llvm:0:global"))
            gv = c, f
            R.output(gv)
        return gv


@I.ir_module(s_tir=True)
class OnLittle:
    """What the second device's library is made from: its kernels, by the names they had."""

    @T.prim_func(private=True, s_tir=True)
    def negative(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        for i in range(4):
            with T.sblock("b"):
                vi = T.axis.remap("S", [i])
                b[vi] = -a[vi]


def placed(*steps: tuple[str, str, tuple[int, ...]], batch: int = 1) -> tvm.IRModule:
    """The module placed so; on the first device, one element costs what TVM's own nests cost."""
    problem = unit_problem(Lowered, PLATFORM, batch)
    if batch == 1:
        rows = {
            task: {**row, "big": replace(row["big"], implementation="default")}
            for task, row in problem.costs.items()
        }
        problem = replace(problem, costs=rows)
    return annotate_devices(Lowered, problem, as_schedule(problem, list(steps)))


def without_documents(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without its attributes that hold problem and schedule as JSON."""
    return mod.without_attr(PROBLEM).without_attr(SCHEDULE)


APART = ("0.twice", "big", (0,)), ("1.negative", "little", (0,))
TOGETHER = ("0.twice", "big", (0, 1)), ("1.negative", "big", (0, 1))


def test_annotating_places_calls_and_moves_tensors() -> None:
    tvm.ir.assert_structural_equal(without_documents(placed(*APART)), Placed)


def test_of_a_batch_each_element_goes_through_before_the_next() -> None:
    tvm.ir.assert_structural_equal(without_documents(placed(*TOGETHER, batch=2)), Batch)


def test_stripping_gives_the_lowered_module_back() -> None:
    tvm.ir.assert_structural_equal(strip_devices(placed(*APART)), Lowered)
    tvm.ir.assert_structural_equal(strip_devices(placed(*TOGETHER, batch=2)), Lowered)


def test_a_split_module_is_steps_and_a_library_for_each_device() -> None:
    """Main memory is one, so there is nothing to copy; each device's run is a step."""
    split = split_segments(placed(*APART))
    x, doubled, result = Root(None, 0), Root(0, 0), Root(1, 0)
    assert split.steps == (
        Segment("seg0", device=0, calls=(0,), ins=(x,), constants=(), outs=(doubled,)),
        Segment("seg1", device=1, calls=(1,), ins=(doubled,), constants=(), outs=(result,)),
    )
    assert split.symbols == ("twice__default", "negative")
    tvm.ir.assert_structural_equal(split.modules[1], OnLittle)
