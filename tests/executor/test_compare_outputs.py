"""Variants that are run side by side are held against each other."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
import tvm

from tests.executor.test_choose_variant import built
from tvm_hetero.artifact.executable import PARTITION, SINGLE, Executable
from tvm_hetero.errors import OutputWarning
from tvm_hetero.executor.choose_variant import decide
from tvm_hetero.executor.compare_outputs import ALIKE, alike_limit, compare_outputs
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.relative_error import largest_relative_error
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.problem.precision_promise import PrecisionPromise

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("found", "expected", "difference"),
    [
        ([1.0, -4.0], [1.0, -4.0], 0.0),
        ([1.0, -3.0], [1.0, -4.0], 0.25),
        ([1.0, NAN, INF], [1.0, NAN, INF], 0.0),
        ([1.0, NAN, -INF], [1.0, NAN, INF], INF),
        ([NAN, 1.0], [1.0, 1.0], INF),
        ([0.0, 1e-30], [0.0, 0.0], INF),
        ([1.0], [1.0, 1.0], INF),
        ([], [], 0.0),
    ],
)
def test_a_difference_is_a_share_of_the_largest_value(found, expected, difference):
    arrays = [np.array(each, "float32") for each in (found, expected)]
    assert largest_relative_error([arrays[1]], [arrays[0]]) == difference


def with_other_weights(executable: Executable) -> Executable:
    """The same, but for its weights, which are twice as large."""
    assert executable.weights
    weights = {
        name: tvm.runtime.tensor(as_array(value) * 2) for name, value in executable.weights.items()
    }
    return replace(executable, weights=weights)


def test_variants_of_one_model_agree_and_the_artifact_says_so():
    executable = decide(built())
    assert executable.decision is not None and executable.decision["difference"] < 1e-5


def test_a_variant_that_computes_something_else_is_told_of():
    right = built()
    with ExitStack() as stack, pytest.warns(OutputWarning, match="single differ from those of par"):
        made = {PARTITION: right, SINGLE: with_other_weights(right)}
        executors = {name: stack.enter_context(Executor(made[name], name)) for name in made}
        assert compare_outputs(executors) > ALIKE


def test_bfloat16_may_be_further_off() -> None:
    plain = built()
    promise = PrecisionPromise("bfloat16", None, tasks={"t": 0.0})
    assert alike_limit(plain) == ALIKE < alike_limit(replace(plain, precision=promise))


def test_large_outputs_are_compared_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tvm_hetero.executor.relative_error._PART", 2)
    expected = [np.array([[1, 2, -8], [NAN, 4, 5]], "float32")]
    found = [np.array([[1, 2, -8], [NAN, 4, 3]], "float32")]
    assert largest_relative_error(expected, found) == 0.25
    assert largest_relative_error(expected, [np.abs(expected[0])]) == 2.0
