"""Tensors from whatever a caller has, without a copy where that is possible.

An array is *wrapped* (the tensor is the array's own memory) if it is in main memory, row after row,
begins at a multiple of 64 bytes, as TVM's kernels want it, and may be written to (DLPack's older
form, which TVM speaks, cannot say that it may not). NumPy's own arrays begin at any multiple of 16,
so that most are copied; memory of TVM's always fits.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tvm
import tvm_ffi

from tvm_hetero.errors import RunError

ALIGNMENT = 64
CPU = int(tvm_ffi.DLDeviceType.kDLCPU)
HOST = tvm.cpu()


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of TVM's, or of tvm-ffi's."""
    return isinstance(value, tvm_ffi.Tensor)


def as_tensor(value: Any) -> Any:
    """Arrays of other libraries (PyTorch, JAX, ...) as tensors that share their memory."""
    if is_tensor(value) or isinstance(value, np.ndarray | np.generic):
        return value
    # Their own words for types ("torch.float32") are not ours: as tensors they speak TVM's.
    return tvm_ffi.from_dlpack(value) if hasattr(value, "__dlpack__") else value


def as_array(value: Any) -> np.ndarray[Any, Any]:
    """A NumPy array of a value: a view of a tensor in main memory, else a copy."""
    if not is_tensor(value):
        return np.asarray(value)
    if value.device.dlpack_device_type() == CPU and numpy_knows(str(value.dtype)):
        return np.from_dlpack(value)
    copied = tvm.runtime.empty(value.shape, value.dtype).copyfrom(_of_tvm(value))
    return np.asarray(copied.numpy())


def place_tensor(value: Any, device: tvm.runtime.Device, copy: bool = False) -> Any:
    """A tensor on `device` with a value's elements; its memory is the value's own if it can be.

    Parameters
    ----------
    copy
        Take memory of its own in any case.
    """
    if not copy and is_tensor(value) and value.device == device and _fits(value):
        return value
    array = as_array(value)
    if not copy and device == HOST and is_wrapped(array):
        return tvm.runtime.from_dlpack(array)
    return _filled(tvm.runtime.empty(*_type_of(array), device), array)


def copy_lasting(array: np.ndarray[Any, Any], device: tvm.runtime.Device) -> Any:
    """A copy on `device` of an array that is read again and again, as weights are.

    It is in huge pages, if it is large and in main memory: reading it misses the TLB less.

    Raises
    ------
    RunError
        If there is no memory for it.
    """
    empty = tvm_ffi.get_global_func("tvm_hetero.empty")
    shape, dtype = _type_of(array)
    try:
        fresh = empty(shape, tvm_ffi.dtype(dtype), device)
    except RuntimeError as error:
        reason = (str(error).strip().splitlines() or [""])[-1]
        raise RunError(
            f"device {device} gives no memory for {array.nbytes:,} bytes of weights "
            f"({dtype}{list(array.shape)}): {reason}; end what else uses it, or state its memory "
            "in the platform file and partition again"
        ) from error
    return _filled(fresh, array)


def stack_arrays(arrays: Sequence[np.ndarray[Any, Any]], shape: tuple[int, ...]) -> Any:
    """A new tensor of a shape in main memory, with equal arrays one behind the other in it."""
    dtype = _type_name(arrays[0].dtype)
    if not numpy_knows(dtype):
        return tvm.runtime.tensor(np.stack(arrays).reshape(shape))
    tensor = tvm.runtime.empty(_shape(shape), dtype)
    np.stack(arrays, out=np.from_dlpack(tensor).reshape((len(arrays), *arrays[0].shape)))
    return tensor


def _type_of(array: np.ndarray[Any, Any]) -> tuple[Any, str]:
    return _shape(array.shape), _type_name(array.dtype)


def _filled(tensor: Any, array: np.ndarray[Any, Any]) -> Any:
    """A tensor with the elements of an array."""
    if tensor.device.dlpack_device_type() == CPU and numpy_knows(_type_name(array.dtype)):
        np.copyto(np.from_dlpack(tensor), array)  # much quicker than `copyfrom`
        return tensor
    return tensor.copyfrom(np.ascontiguousarray(array).reshape(array.shape))


def _of_tvm(value: Any) -> Any:
    return value if isinstance(value, tvm.runtime.Tensor) else tvm.runtime.from_dlpack(value)


# Making a shape takes longer than all the rest of copying a small array.
_shape = functools.lru_cache(maxsize=1024)(tvm_ffi.Shape)


@functools.cache
def _type_name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # NumPy puts it together again each time


def numpy_type(dtype: str) -> np.dtype[Any]:
    """NumPy's type of a name, those of ``ml_dtypes`` (bfloat16 and the like) among them."""
    return np.dtype(dtype if numpy_knows(dtype) else getattr(ml_dtypes, dtype))


@functools.cache
def numpy_knows(dtype: str) -> bool:
    """Whether NumPy's DLPack knows a type: not bfloat16 and the like, which come from elsewhere."""
    try:
        return np.dtype(dtype).isbuiltin == 1
    except TypeError:
        return False


def _fits(tensor: Any) -> bool:
    return bool(tensor.is_contiguous()) and tensor.data_ptr() % ALIGNMENT == 0


def is_wrapped(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array's own memory can be a tensor (see the file's text)."""
    return (
        array.flags.carray  # row after row, and writeable
        and array.ctypes.data % ALIGNMENT == 0
        and array.dtype.isbuiltin == 1  # and of this machine's byte order
    )
