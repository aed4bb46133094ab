"""Values become tensors without a copy where they can, and the same elements in any case."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.executor import native
from tvm_hetero.executor.tensors import as_array, as_tensor, copy_lasting, place_tensor

HOST = tvm.cpu()
PRIVATE = tvm.runtime.Device(1, 3)


def aligned(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """An array in memory of TVM's, which begins at a multiple of 64."""
    array = np.from_dlpack(tvm.runtime.empty(shape, dtype))
    array[...] = np.arange(array.size).reshape(shape)
    return array


@given(
    shape=st.lists(st.integers(0, 5), max_size=3).map(tuple),
    dtype=st.sampled_from(["float32", "float64", "int64", "uint8", "bool", "float16", "bfloat16"]),
    copy=st.booleans(),
    private=st.booleans(),
    reverse=st.booleans(),
)
def test_the_elements_are_the_same(shape, dtype, copy, private, reverse):
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    value = array[::-1] if reverse and shape else array
    tensor = place_tensor(value, PRIVATE if private else HOST, copy)
    assert tensor.device == (PRIVATE if private else HOST)
    assert str(tensor.dtype) == dtype
    assert tensor.data_ptr() % 64 == 0
    np.testing.assert_array_equal(tensor.numpy(), value)
    np.testing.assert_array_equal(as_array(tensor), value)


@pytest.mark.parametrize("dtype", ["float32", "int64", ml_dtypes.bfloat16])
@pytest.mark.parametrize("device", [HOST, PRIVATE])
@pytest.mark.parametrize("shape", [(), (3, 5), (1024, 1024)])
def test_lasting_copies_are_copies(shape, device, dtype):
    native.load_library()
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    tensor = copy_lasting(array, device)
    assert tensor.device == device
    assert tensor.data_ptr() % 64 == 0
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_an_aligned_array_is_used_where_it_is():
    array = aligned((4, 16))
    tensor = place_tensor(array, HOST)
    array[0, 0] = 77
    assert tensor.numpy()[0, 0] == 77
    kept = place_tensor(array, HOST, copy=True)
    array[0, 0] = 78
    assert kept.numpy()[0, 0] == 77


def test_a_tensor_in_its_place_is_taken_as_it_is():
    tensor = tvm.runtime.tensor(np.ones((2, 3), "float32"))
    assert place_tensor(tensor, HOST).same_as(tensor)
    assert not place_tensor(tensor, HOST, copy=True).same_as(tensor)
    moved = place_tensor(tensor, PRIVATE)
    assert moved.device == PRIVATE
    assert moved.data_ptr() != tensor.data_ptr()
    assert (place_tensor(moved, HOST).numpy() == 1).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda array: array[:, 1:],  # strides
        lambda array: array[1:],  # begins at 12
        lambda array: array.T,
        lambda array: array.astype(">f4"),
    ],
)
def test_what_does_not_fit_is_copied(make):
    array = make(aligned((4, 3)))
    tensor = place_tensor(array, HOST)
    assert tensor.data_ptr() != array.ctypes.data
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_an_array_that_must_not_be_written_is_copied():
    array = aligned((16,))
    array.flags.writeable = False
    assert (place_tensor(array, HOST).numpy() == array).all()


def test_arrays_of_other_libraries_come_by_dlpack():
    class Foreign:
        """As PyTorch's: its types have names of their own."""

        dtype = "foreign.float32"

        def __init__(self, array: np.ndarray) -> None:
            self._array = array
            self.shape = array.shape

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    tensor = as_tensor(Foreign(aligned((2, 2))))
    assert str(tensor.dtype) == "float32"
    assert (as_array(tensor) == [[0, 1], [2, 3]]).all()
    assert as_tensor([1, 2]) == [1, 2]
