"""``application/x-npy``: an array as NumPy saves it, for people with curl.

    python -c 'import numpy as np; np.save("x.npy", x)'
    curl -H 'Content-Type: application/x-npy' --data-binary @x.npy .../infer

Of NumPy's reader only that of the head is used, which evaluates literals; nothing is unpickled.
"""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np

from tvm_hetero.serve.core.refusal import RequestError

NPY = "application/x-npy"
_MOST_HEAD = 4096


def read_npy(body: bytes | bytearray | memoryview) -> np.ndarray[Any, Any]:
    """The array of a .npy file.

    Raises
    ------
    RequestError
        If it is none, or has objects in it.
    """
    stream = io.BytesIO(body)
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            head = np.lib.format.read_array_header_1_0(stream, max_header_size=_MOST_HEAD)
        elif version == (2, 0):
            head = np.lib.format.read_array_header_2_0(stream, max_header_size=_MOST_HEAD)
        else:
            raise RequestError(f"the .npy file is of version {version}; expected 1.0 or 2.0")
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise RequestError("the body is no .npy file (numpy.save writes them)") from None
    shape, is_fortran, dtype = head
    if dtype.hasobject or dtype.kind not in "biuf" or len(shape) > 16:
        raise RequestError(f"the .npy file has {dtype} of {len(shape)} axes; expected numbers")
    expected = math.prod(shape) * dtype.itemsize
    if min(shape, default=1) < 0 or len(body) - stream.tell() != expected:
        raise RequestError(
            f"the .npy file has {len(body) - stream.tell()} bytes of numbers; expected {expected}"
        )
    array = np.frombuffer(body, dtype, math.prod(shape), stream.tell())
    array = array.reshape(shape, order="F" if is_fortran else "C")
    return array.astype(dtype.newbyteorder("="), order="C", copy=False)


def write_npy(array: np.ndarray[Any, Any]) -> bytes:
    """An array as a .npy file.

    Raises
    ------
    RequestError
        If NumPy has no such numbers (bfloat16).
    """
    if array.dtype.isbuiltin != 1:
        raise RequestError(f".npy files have no {array.dtype}; ask for bytes instead")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()
