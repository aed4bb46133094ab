"""Stacks of elements: views of one array, in either form, and back again."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.errors import ArtifactError
from tvm_hetero.executor.batches import (
    Stack,
    join_batch,
    join_outputs,
    make_stacks,
    merged_shape,
    split_batch,
    split_element,
    stacked_shape,
)

SHAPES = st.lists(st.integers(1, 4), max_size=3).map(tuple)


@given(shape=SHAPES, batch=st.integers(2, 5), merged=st.booleans())
def test_elements_are_views_and_joined_they_are_the_array(
    shape: tuple[int, ...], batch: int, merged: bool
) -> None:
    form = merged_shape(shape, batch) if merged else stacked_shape(shape, batch)
    array = np.arange(np.prod(form, dtype=int), dtype="float32").reshape(form)
    parts = split_batch(array, shape, batch)
    assert [part.shape for part in parts] == [shape] * batch
    for e, part in enumerate(parts):
        assert np.shares_memory(part, array)
        np.testing.assert_array_equal(part, array.reshape(batch, *shape)[e])
    joined = join_batch(parts, merged).numpy()
    assert joined.shape == form
    np.testing.assert_array_equal(joined, array)


def test_elements_of_an_array_with_strides_are_views_too() -> None:
    array = np.arange(48.0).reshape(6, 8)[:, ::2]
    parts = split_batch(array, (2, 4), 3)
    assert all(np.shares_memory(part, array) for part in parts)
    np.testing.assert_array_equal(parts[1], array[2:4])


def test_one_element_has_the_models_own_names_and_shapes() -> None:
    assert make_stacks(["a#7", "b"], 1) == [Stack("a#7", (0,)), Stack("b", (1,))]
    assert merged_shape((2, 3), 1) == stacked_shape((2, 3), 1) == (2, 3)
    outputs = [object(), object()]
    assert join_outputs(make_stacks(["y", "z"], 1), True, outputs) == outputs


@pytest.mark.parametrize(
    "names",
    [["x#0", "y#0", "x#1", "y#1"], ["x#0", "x#1", "y#0", "y#1"], ["x#1", "x#0", "y#1", "y#0"]],
)
def test_stacks_are_found_in_any_order(names: list[str]) -> None:
    stacks = make_stacks(names, 2)
    assert [stack.name for stack in stacks] == ["x", "y"]
    assert [[names[row] for row in stack.rows] for stack in stacks] == [
        ["x#0", "x#1"],
        ["y#0", "y#1"],
    ]


def test_a_name_may_hold_the_mark_itself() -> None:
    assert split_element("a#b#1", 2) == ("a#b", 1)


@pytest.mark.parametrize("names", [["x"], ["x#2"], ["x#-1"], ["x#0"], ["x#0", "x#1", "y#0"]])
def test_names_of_another_batch_are_refused(names: list[str]) -> None:
    with pytest.raises(ArtifactError):
        make_stacks(names, 2)


def test_types_that_numpy_has_not_by_itself_are_joined() -> None:
    import ml_dtypes
    import tvm

    parts = [tvm.runtime.tensor(np.full((1, 3), e, ml_dtypes.bfloat16)) for e in range(2)]
    joined = join_batch(parts, merged=True)
    assert str(joined.dtype) == "bfloat16"
    np.testing.assert_array_equal(joined.numpy().astype("float32"), [[0, 0, 0], [1, 1, 1]])
