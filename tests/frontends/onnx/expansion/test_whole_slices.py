"""Slices that leave nothing out are left out."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.frontends.onnx.running import assert_same, typed_model
from tvm_hetero.frontends.onnx import from_onnx

X = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
WHOLE = {
    "to the last": ([0, 0], [2, 3], [0, 1], [1, 1]),
    "beyond the last": ([0], [2**63 - 1], [-1], [1]),
    "counted from the end": ([-3, 0], [3, 4], [1, 2], None),
    "all axes": ([0, 0, 0], [2, 3, 4], None, None),
}
PARTS = {
    "one less": ([0], [3], [2], [1]),
    "up to the last": ([0], [-1], [2], [1]),
    "from the second": ([1], [3], [1], None),
    "backwards": ([-1], [-(2**63) + 1], [2], [-1]),
    "every second": ([0], [4], [2], [2]),
}


def sliced(begins, ends, axes, steps):
    given = {"begins": begins, "ends": ends, "axes": axes, "steps": steps}
    constants = {k: np.array(v, np.int64) for k, v in given.items() if v is not None}
    names = [name if name in constants else "" for name in given]
    while not names[-1]:
        names.pop()
    nodes = [
        helper.make_node("Slice", ["x", *names], ["part"]),
        helper.make_node("Neg", ["part"], ["y"]),
    ]
    return typed_model(nodes, {"x": X}, constants)


@pytest.mark.parametrize("name", WHOLE)
def test_a_slice_of_everything_is_the_value_itself(name):
    model = sliced(*WHOLE[name])
    assert_same(model, {"x": X}, [-X])
    assert "slice" not in str(from_onnx(model)["main"])


@pytest.mark.parametrize("name", PARTS)
def test_a_slice_of_a_part_stays(name):
    assert "slice" in str(from_onnx(sliced(*PARTS[name]))["main"])
