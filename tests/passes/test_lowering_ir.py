"""Lowering, seen: the model, and what it is as kernels and views, in full."""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T

from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.pins import with_hints


@I.ir_module
class Model:
    """y = 2 max(x, 0), and z = y - 1. A front end has noted that y is wanted on GPU 0."""

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        R.func_attr({"hetero_device_wishes": '{"y": [2, 0]}'})
        with R.dataflow():
            positive = R.nn.relu(x)
            two = R.sqrt(R.const(4.0, "float32"))
            y = R.multiply(positive, two)
            z = R.subtract(y, R.const(1.0, "float32"))
            R.output(y, z)
        return y, z


@I.ir_module(s_tir=True)
class Lowered:
    """What is constant is computed, what can be is fused; y is wanted outside, so z stands apart.

    ``op_pattern`` is TVM's own note for fusing.
    """

    @T.prim_func(private=True, s_tir=True)
    def fused_relu_multiply(
        x: T.Buffer((T.int64(2), T.int64(3)), "float32"),
        y: T.Buffer((T.int64(2), T.int64(3)), "float32"),
    ):
        T.func_attr({"tirx.noalias": True})
        positive = T.sblock_alloc_buffer((T.int64(2), T.int64(3)), "float32")
        for i, j in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("compute"):
                vi, vj = T.axis.remap("SS", [i, j])
                positive[vi, vj] = T.max(T.float32(0), x[vi, vj])
        for i, j in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("T_multiply"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = positive[vi, vj] * T.float32(2)

    @T.prim_func(private=True, s_tir=True)
    def subtract(
        y: T.Buffer((T.int64(2), T.int64(3)), "float32"),
        z: T.Buffer((T.int64(2), T.int64(3)), "float32"),
    ):
        T.func_attr({"op_pattern": 0, "tirx.noalias": True})
        for i, j in T.grid(T.int64(2), T.int64(3)):
            with T.sblock("T_subtract"):
                vi, vj = T.axis.remap("SS", [i, j])
                z[vi, vj] = y[vi, vj] - T.float32(1)

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        R.func_attr({"hetero_device_wishes": '{"y": [2, 0]}'})
        cls = Lowered
        with R.dataflow():
            y = R.call_tir(cls.fused_relu_multiply, (x,), out_ty=R.Tensor((2, 3), "float32"))
            z = R.call_tir(cls.subtract, (y,), out_ty=R.Tensor((2, 3), "float32"))
            R.output(y, z)
        return y, z


@I.ir_module
class Hinted:
    """The wish stands in the program: what makes y ends its kernel there, whoever reads it."""

    @R.function
    def main(x: R.Tensor((2, 3), "float32")):
        R.func_attr({"hetero_device_wishes": '{"y": [2, 0]}'})
        with R.dataflow():
            positive = R.nn.relu(x)
            two = R.sqrt(R.const(4.0, "float32"))
            y = R.multiply(positive, two)
            hint = R.hint_on_device(y, R.device(device_type=1, index=0), "global")
            z = R.subtract(hint, R.const(1.0, "float32"))
            R.output(y, hint, z)
        return hint, z


def test_lowering_computes_what_is_constant_and_fuses_the_rest() -> None:
    tvm.ir.assert_structural_equal(LowerToTasks()(Model), Lowered)


def test_a_lowered_module_comes_back_as_it_is() -> None:
    tvm.ir.assert_structural_equal(LowerToTasks()(Lowered), Lowered)


def test_a_wish_becomes_a_hint_after_its_operator() -> None:
    hinted = with_hints(Model)
    tvm.ir.assert_structural_equal(hinted, Hinted)
    relax.analysis.well_formed(hinted)  # it was not: a hint on a result stayed in its block


def test_lowered_the_hint_is_gone_and_its_kernel_is_pinned() -> None:
    """Call 0 on device type 2 (CUDA), number 0; all else is as without hints."""
    pinned = Lowered.clone()
    pinned["main"] = pinned["main"].with_attr("hetero_pins", '{"0": [2, 0]}')
    tvm.ir.assert_structural_equal(LowerToTasks()(Hinted), pinned)
