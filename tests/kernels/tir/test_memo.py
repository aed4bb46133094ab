"""Texts and schedules that are kept: of the very same kernel, and of no other."""

from __future__ import annotations

import tvm

from tests.cost_models.kernel_samples import elementwise
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.tir.implementation_attr import DEFAULT, with_implementation
from tvm_hetero.kernels.tir.memo import kernel_text, scheduled_once

LLVM = {"kind": "llvm"}


def test_a_kernel_is_scheduled_once_for_equal_targets():
    func, calls = elementwise("k", 32).func, []

    def schedule(func, target):
        calls.append(str(target))
        return func.with_attr("turn", len(calls))

    once = scheduled_once(schedule)
    first = once(func, tvm.target.Target(LLVM))
    again = func.with_attr("x", "y").without_attr("x")
    assert once(again, tvm.target.Target(LLVM)).same_as(first)
    assert not once(func, tvm.target.Target({**LLVM, "mcpu": "x86-64-v3"})).same_as(first)
    assert not once(func.with_attr("x", "y"), tvm.target.Target(LLVM)).same_as(first)
    assert len(calls) == 3


def test_an_equal_kernel_of_another_module_keeps_its_own_names():
    one, two = (elementwise("k", 32).func for _ in range(2))
    target = tvm.target.Target(LLVM)
    assert not schedule_kernel(one, target).same_as(schedule_kernel(two, target))


def test_a_way_to_compute_a_kernel_is_a_schedule_of_its_own():
    func, target = elementwise("k", 32).func, tvm.target.Target(LLVM)
    plain = schedule_kernel(with_implementation(func, DEFAULT), target)
    assert not plain.same_as(schedule_kernel(func, target))


def test_a_text_names_neither_symbol_nor_target():
    func = elementwise("k", 32).func
    placed = func.with_attr("global_symbol", "other").with_attr("target", tvm.target.Target(LLVM))
    assert kernel_text(placed) == kernel_text(func)
    assert kernel_text(func.with_attr("x", "y")) != kernel_text(func)
    assert "@T.prim_func" in kernel_text(func)
