"""Tensors in bfloat16 between tasks: which there can be, and that no number changes by them."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from tests.kernels.helpers import AVX512, ZEN4, model, random, run, runs_here, scheduled
from tvm_hetero.passes.extract_tasks import ExtractedTasks, extract_tasks
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.passes.narrow_edges import (
    Form,
    KernelForms,
    edge_forms,
    find_forms,
    form_of,
    usable_edges,
)
from tvm_hetero.passes.narrow_tasks import as_kernel, is_narrow, narrow_kernels, narrow_tasks

CHANNELS, SIZE = 16, 20
SHAPE = (1, CHANNELS, SIZE, SIZE)
# Positions of the tasks of `inverted`.
EXPAND, DEPTHWISE, PROJECT, AGAIN = range(4)
TARGETS = [target for target in (ZEN4, AVX512) if runs_here(target)]


def convolved(x: relax.Expr, seed: int, outputs: int, inputs: int) -> relax.Expr:
    weight = random(seed, outputs, inputs, 1, 1) / np.float32(np.sqrt(inputs))
    return relax.op.nn.conv2d(x, relax.const(weight))


def inverted(x: relax.Expr, *, residual: bool = False) -> relax.Expr:
    """What MobileNets are made of."""
    y = relax.op.nn.relu(convolved(x, 1, 2 * CHANNELS, CHANNELS))
    weight = relax.const(random(2, 2 * CHANNELS, 1, 3, 3))
    y = relax.op.nn.relu(relax.op.nn.conv2d(y, weight, padding=1, groups=2 * CHANNELS))
    y = convolved(y, 3, CHANNELS, 2 * CHANNELS)
    again = relax.op.nn.relu(convolved(y, 4, CHANNELS, CHANNELS))
    return relax.op.add(again, y) if residual else again


def lowered(body: object = inverted) -> tuple[tvm.IRModule, ExtractedTasks, KernelForms]:
    mod = LowerToTasks([ZEN4])(model([SHAPE], body))
    tasks = extract_tasks(mod)
    return mod, tasks, find_forms(tasks, narrow_kernels(tasks))


def pairs(forms: KernelForms) -> list[tuple[int, tuple[int, ...]]]:
    return [(edge.writer, edge.readers) for edge in forms.edges]


def test_tensors_that_only_tasks_in_bfloat16_read_may_be_rounded() -> None:
    _, tasks, forms = lowered()
    assert len(tasks.main.calls) == 4
    # Not the depthwise convolution's data, which it takes as they are, and no output of the model.
    assert pairs(forms) == [(DEPTHWISE, (PROJECT,)), (PROJECT, (AGAIN,))]
    names = tuple(tasks.kernel_of.values())
    assert usable_edges(forms, names, {PROJECT}) == [forms.edges[0]]
    assert usable_edges(forms, names, {EXPAND, AGAIN}) == []
    assert usable_edges(forms, names, {PROJECT, AGAIN}) == list(forms.edges)
    assert set(edge_forms(forms, names)) == {
        (names[DEPTHWISE], Form(writes=True)),
        (names[PROJECT], Form(narrow=True, reads=True)),
        (names[PROJECT], Form(narrow=True, writes=True)),
        (names[PROJECT], Form(narrow=True, reads=True, writes=True)),
        (names[AGAIN], Form(narrow=True, reads=True)),
    }


def test_a_tensor_that_is_read_otherwise_too_stays_float32() -> None:
    def with_output(x: relax.Expr) -> relax.Expr:
        y = convolved(x, 1, CHANNELS, CHANNELS)
        return relax.Tuple([y, convolved(y, 2, CHANNELS, CHANNELS)])

    def with_view(x: relax.Expr) -> relax.Expr:
        y = relax.op.reshape(convolved(x, 1, CHANNELS, CHANNELS), (1, CHANNELS, 10, 40))
        return convolved(y, 2, CHANNELS, CHANNELS)

    def with_another_reader(x: relax.Expr) -> relax.Expr:
        y = convolved(x, 1, CHANNELS, CHANNELS)
        return relax.op.multiply(convolved(y, 2, CHANNELS, CHANNELS), relax.op.nn.softmax(y))

    assert pairs(lowered(lambda x: inverted(x, residual=True))[2]) == [(DEPTHWISE, (PROJECT,))]
    for body in (with_output, with_view, with_another_reader):
        _, _, forms = lowered(body)
        assert forms.narrow and pairs(forms) == []


@pytest.mark.parametrize("target", TARGETS)
def test_no_number_changes_by_edges(target: tvm.target.Target) -> None:
    mod, tasks, forms = lowered()
    ids = tasks.main.task_ids
    chosen = [ids[i] for i in (EXPAND, PROJECT, AGAIN)]
    plain = narrow_tasks(mod, forms, chosen)
    x = random(9, *SHAPE)
    expected = run(scheduled(plain, target), target, x)
    for edges in ([forms.edges[0]], [forms.edges[1]], forms.edges):
        short = narrow_tasks(mod, forms, chosen, edges)
        types = [str(call.outputs[0].dtype) for call in extract_tasks(short).main.calls]
        writers = [edge.writer for edge in edges]
        assert types == ["bfloat16" if i in writers else "float32" for i in range(4)]
        np.testing.assert_array_equal(run(scheduled(short, target), target, x), expected)
    assert not np.array_equal(expected, run(scheduled(mod, target), target, x))


def test_who_writes_rounded_numbers_computes_in_float32_and_says_so() -> None:
    mod, tasks, forms = lowered()
    chosen, edges = [tasks.main.task_ids[PROJECT]], [forms.edges[0]]
    first, second = (narrow_tasks(mod, forms, chosen, edges) for _ in range(2))
    assert tvm_ffi.structural_equal(first, second)
    found = extract_tasks(first)
    names = list(found.kernel_of.values())
    assert [is_narrow(name) for name in names] == [False, False, True, False]
    assert [name.endswith("_to_short") for name in names] == [False, True, False, False]
    values = 2 * CHANNELS * SIZE * SIZE
    assert [edge.bytes for edge in found.graph.edges] == [4 * values, 2 * values, 2 * values]


def test_a_kernel_of_edges_counts_their_bytes() -> None:
    _, tasks, forms = lowered()
    name = tasks.main.calls[PROJECT].kernel.name_hint
    plain = as_kernel(forms, name, Form(narrow=True))
    short = as_kernel(forms, name, form_of(PROJECT, {PROJECT}, forms.edges))
    values = 3 * CHANNELS * SIZE * SIZE  # twice as many channels come as go
    assert plain.bytes - short.bytes == 2 * values
    assert forms.kernels[name].bytes - plain.bytes == 2 * (2 * CHANNELS * CHANNELS)
