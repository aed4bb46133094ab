"""ONNX Runtime over a test, types that NumPy lacks (bfloat16, the 8-bit floats) included."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import helper

from benchmarks.conforming.suite import Value


def runner(model: bytes) -> Callable[[Sequence[Value]], list[Value]]:
    """Return what runs a model on one thread.

    Raises
    ------
    Exception
        One of ONNX Runtime's, where it does not take the model.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model, options)
    names = [each.name for each in session.get_inputs()]

    def run(inputs: Sequence[Value]) -> list[Value]:
        given = dict(zip(names, inputs, strict=False))
        try:
            return list(session.run(None, given))
        except RuntimeError as error:
            if "MLDataType" not in str(error) and "Numpy type" not in str(error):
                raise
        # Sequences cannot be handed over so; tensors of every type can.
        values = {name: _value(array) for name, array in given.items()}
        return [_array(value) for value in session.run_with_ort_values(None, values)]

    return run


def _value(array: Any) -> Any:
    from onnxruntime import OrtValue

    if array.dtype.isbuiltin == 1:
        return OrtValue.ortvalue_from_numpy(array)
    _refuse_packed(array.dtype)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").reshape(array.shape)
    return OrtValue.ortvalue_from_numpy_with_onnx_type(bits, kind)


def _array(value: Any) -> Any:
    kind, shape = value.element_type(), tuple(value.shape())
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    if dtype.isbuiltin == 1:
        return value.numpy()
    _refuse_packed(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    held = ctypes.string_at(value.data_ptr(), count * dtype.itemsize) if count else b""
    return np.frombuffer(held, dtype).reshape(shape)


def _refuse_packed(dtype: np.dtype[Any]) -> None:
    """Refuse types of which ONNX Runtime has several in a byte, and `ml_dtypes` one."""
    if dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
        raise NotImplementedError(f"elements of type {dtype} are packed")
