"""Outputs that are as long as a number says which the model makes."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
import tvm

from tests.executor.native_plans import PlanBuilder, tensor
from tvm_hetero.errors import RunError

SIX = np.arange(6, dtype="float64")


def counted(count: int, axis: int) -> PlanBuilder:
    """Six numbers as two rows of three, of an axis of which `count` are handed out."""
    builder = PlanBuilder()
    given = builder.input()

    def number(_: Any) -> Any:
        return tvm.runtime.tensor(np.array([count]))

    [made] = builder.call([given], function=lambda _: tensor(*SIX))
    [length] = builder.call([given], function=number)
    builder.plan["slots"][length] |= {"shape": [1], "dtype": "int64"}
    builder.output(made)
    builder.plan["outputs"][0] |= {"shape": [2, 3], "length": [length, axis]}
    return builder


@pytest.mark.parametrize(
    ("count", "axis", "wanted"),
    [
        (2, 0, SIX.reshape(2, 3)),
        (1, 0, SIX[:3].reshape(1, 3)),
        (0, 0, np.zeros((0, 3))),
        (2, 1, SIX[:4].reshape(2, 2)),
        (0, 1, np.zeros((2, 0))),
    ],
)
def test_an_output_has_the_first_elements_in_the_shape_that_is_counted(
    count: int, axis: int, wanted: Any
) -> None:
    with closing(counted(count, axis).create()) as executor:
        executor.set_input(0, tensor(1, 2))
        executor.run()
        made = executor.get_output(0).numpy()
    assert made.shape == wanted.shape
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("count", [-1, 4])
def test_a_count_that_there_is_no_room_for_is_an_error(count: int) -> None:
    with closing(counted(count, 1).create()) as executor:
        executor.set_input(0, tensor(1, 2))
        with pytest.raises(RunError, match=f"'y' has a length of {count}, expected 0 to 3"):
            executor.run()
