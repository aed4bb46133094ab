"""Arrays as the old TVM wrote them: in base64 in a saved program, in ``.params`` files.

All numbers are little-endian. An array:

    u64 magic, u64 reserved, i32 device type, i32 device, i32 rank,
    u8 type code, u8 bits, u16 lanes, i64 shape[rank], i64 bytes, data

A file of parameters:

    u64 magic, u64 reserved, u64 count, count names (u64 length, text), u64 count, count arrays
"""

from __future__ import annotations

import base64
import binascii
import math
import os
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from tvm_hetero.errors import ModelError
from tvm_hetero.frontends.relay.core.limits import DEFAULT_LIMITS, RelayLimits, read_file
from tvm_hetero.util.untrusted_names import printable

_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_LIST_MAGIC = 0xF7E58D4F05049CB7
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_NAME_BYTES = 4096


class _Bytes:
    """Bytes that are read from front to back; too few are an error that names what is missing."""

    def __init__(self, content: bytes, name: str) -> None:
        self.content = memoryview(content)
        self.name = name
        self.at = 0

    def take(self, count: int, what: str) -> memoryview:
        left = len(self.content) - self.at
        if not 0 <= count <= left:
            raise ModelError(
                f"{self.name}: truncated or damaged: {what} needs {count} bytes, {left} are left; "
                "save it again"
            )
        self.at += count
        return self.content[self.at - count : self.at]

    def numbers(self, form: str, what: str) -> tuple[int, ...]:
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))


def dtype_of(name: str) -> np.dtype[Any]:
    """The NumPy type of one of TVM's data types.

    Raises
    ------
    ModelError
        There is none: vectors, handles, fixed point.
    """
    known = {"bool": np.bool_, "uint1": np.bool_, "bfloat16": ml_dtypes.bfloat16}
    if name in known:
        return np.dtype(known[name])
    if name in {
        *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        "float16", "float32", "float64",
    }:  # fmt: skip
        return np.dtype(name)
    raise ModelError(f"data type '{printable(name)}' is not supported: cast it before saving")


def array_from_base64(
    text: object, name: str, limits: RelayLimits = DEFAULT_LIMITS
) -> NDArray[Any]:
    """Return an array of a saved program's ``b64ndarrays``."""
    if not isinstance(text, str):
        raise ModelError(f"{name}: expected base64 text, got {type(text).__name__}")
    try:
        content = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ModelError(f"{name}: not valid base64: {error}; save the program again") from None
    return _array(_Bytes(content, name), limits)


def load_params(
    path: str | os.PathLike[str] | bytes, limits: RelayLimits = DEFAULT_LIMITS
) -> dict[str, NDArray[Any]]:
    """Read a ``.params`` file (``relay.save_param_dict``) of the old TVM.

    Parameters
    ----------
    path : path or bytes
        The file, or its content.

    Returns
    -------
    dict of str to array

    Raises
    ------
    ModelError
        It is no such file, is truncated, or has data types that NumPy has not.
    """
    if isinstance(path, bytes | bytearray):
        content, name = bytes(path), "parameters"
    else:
        name = printable(path)
        content = read_file(Path(path), limits.params_bytes, "a file of parameters")
    data = _Bytes(content, name)
    if data.numbers("QQ", "its header")[0] != _LIST_MAGIC:
        raise ModelError(f"{name}: no file of relay.save_param_dict (its first bytes differ)")
    (count,) = data.numbers("Q", "the number of names")
    names = [_name(data) for _ in range(data.at and _plausible(count, data))]
    (arrays,) = data.numbers("Q", "the number of arrays")
    if arrays != count:
        raise ModelError(f"{name}: {count} names, but {arrays} arrays; save it again")
    if len(set(names)) != count:
        raise ModelError(f"{name}: a name is given twice; save it again")
    result = {each: _array(data, limits) for each in names}
    if data.at != len(data.content):
        raise ModelError(f"{name}: {len(data.content) - data.at} bytes are left at its end")
    return result


def _plausible(count: int, data: _Bytes) -> int:
    """The count, if that many names could be there at all: it sizes a loop."""
    if count * 8 > len(data.content):
        raise ModelError(f"{data.name}: damaged: {count} names in {len(data.content)} bytes")
    return count


def _name(data: _Bytes) -> str:
    (length,) = data.numbers("Q", "the length of a name")
    if length > _NAME_BYTES:
        raise ModelError(f"{data.name}: damaged: a name of {length} bytes")
    try:
        return str(data.take(length, "a name"), "utf-8")
    except UnicodeDecodeError:
        raise ModelError(f"{data.name}: damaged: a name is no text") from None


def _array(data: _Bytes, limits: RelayLimits) -> NDArray[Any]:
    """Read one array; the data it claims must be there before anything is allocated."""
    magic, _, _, _, rank = data.numbers("QQiii", "an array's header")
    if magic != _ARRAY_MAGIC:
        raise ModelError(f"{data.name}: damaged: no array where one should begin")
    code, bits, lanes = data.numbers("BBH", "an array's data type")
    if not 0 <= rank <= limits.rank:
        raise ModelError(f"{data.name}: an array of {rank} dimensions; 0 to {limits.rank} may be")
    dtype = dtype_of(f"{_CODES.get(code, f'code {code} of ')}{bits}" + f"x{lanes}" * (lanes != 1))
    shape = data.numbers(f"{rank}q", "an array's shape")
    (size,) = data.numbers("q", "an array's size")
    if min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != size:
        raise ModelError(f"{data.name}: damaged: shape {shape} of {dtype} is not {size} bytes")
    return np.frombuffer(data.take(size, "an array's data"), dtype).reshape(shape)
