"""Transpositions in tiles: what is taken, and that it moves every value to its place."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from tests.draws import draws
from tests.kernels.helpers import AVX2, AVX512, TWO_CORES, check, kernels, model
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op


def permute(*axes):
    return lambda x: op.permute_dims(x, list(axes))


CASES = {
    "matrix": ((24, 40), permute(1, 0)),
    "odd matrix": ((33, 65), permute(1, 0)),
    "channels last": ((1, 16, 7, 7), permute(0, 2, 3, 1)),
    "channels first": ((2, 6, 5, 12), permute(0, 3, 1, 2)),
    "keys": ((3, 16, 8), permute(0, 2, 1)),
    "all dimensions": ((6, 5, 4, 8), permute(3, 2, 1, 0)),
    "and more": (
        (12, 20),
        lambda x: op.nn.relu(op.add(op.permute_dims(x, [1, 0]), relax.const(1.0))),
    ),
    "both ways": ((16, 16), lambda x: op.add(x, op.permute_dims(x, [1, 0]))),
}
OTHERS = {
    "heads": ((2, 5, 3, 16), permute(0, 2, 1, 3)),
    "prime": ((97, 101), permute(1, 0)),
    "channel shuffle": (
        (1, 12, 4, 5),
        lambda x: op.reshape(
            op.permute_dims(op.reshape(x, (1, 3, 4, 4, 5)), [0, 2, 1, 3, 4]), (1, 12, 4, 5)
        ),
    ),
}


def rule(name: str, target=AVX512) -> str:
    shape, body = (CASES | OTHERS)[name]
    (kernel,) = kernels(LowerToTasks([AVX512, AVX2])(model([shape], body))).values()
    return rule_of(schedule_kernel(kernel, target))


@pytest.mark.parametrize("name", CASES | OTHERS)
def test_equals_plain_tvm(name):
    shape, body = (CASES | OTHERS)[name]
    check([shape], body)


@pytest.mark.parametrize("name", CASES)
def test_the_rule_takes_them(name):
    assert rule(name) == "transpose"


@pytest.mark.parametrize("name", OTHERS)
def test_what_stays_in_rows_is_left(name):
    assert rule(name) == "generic"


@settings(max_examples=draws(6), deadline=None, derandomize=True)
@given(shape=st.lists(st.integers(1, 12), min_size=2, max_size=4), data=st.data())
def test_any_permutation(shape, data):
    axes = data.draw(st.permutations(range(len(shape))))
    check([tuple(shape)], permute(*axes))


def test_two_cores():
    check([(8, 96, 96)], permute(0, 2, 1), targets=[TWO_CORES])
