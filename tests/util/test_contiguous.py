"""What is copied tile by tile is what NumPy copies."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tvm_hetero.util.contiguous import contiguous


@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16])
@pytest.mark.parametrize("shape", [(300, 257), (1, 5), (0, 4), (128, 256), (2, 3, 4)])
def test_it_is_the_transposed_array_in_c_order(dtype: type, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    made = contiguous(array.T)
    assert made.flags.c_contiguous and made.dtype == array.dtype and made.shape == array.T.shape
    assert made.tobytes() == array.T.tobytes()


def test_what_is_in_order_is_not_copied_and_steps_are() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert contiguous(array) is array
    assert contiguous(array[::2, ::3]).tolist() == [[0.0, 3.0], [8.0, 11.0]]
