"""One safetensors file: eight bytes of length, a header in JSON, and the tensors' bytes.

    {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__"}

Offsets count from the end of the header. All of it is checked against the size of the file before
anything is read, so that no header can ask for memory that its file does not fill. Tensors are read
one at a time, when they are asked for.

Why not `safetensors.safe_open`, which our artifacts are read with? Those are our own; this file is
anyone's. safe_open (0.8.0) maps the file: where it shrinks while it is read (a download that is
written again, a network folder), the process dies of SIGBUS, and this reader raises an error. It
takes the last of two entries of one name without a word; this one refuses. And it opens a path of
its own accord, where `files.open_file` has the folder's rules and this reader its descriptor. Both
read bfloat16 and refuse files that are cut off.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from tvm_hetero.errors import FormatError, ModelError
from tvm_hetero.frontends.huggingface.files import open_file
from tvm_hetero.util.documents import parse_document
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Bytes of a value of each type of the format that takes whole bytes.
_BYTES = {
    "F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2,
    "U16": 2, "I8": 1, "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}  # fmt: skip
_READABLE: dict[str, Any] = {"F32": np.float32, "F16": np.float16, "BF16": ml_dtypes.bfloat16}
_MOST_HEADER = 100 * 1000 * 1000  # what the format's own library allows
_AT_ONCE = 1 << 30  # one read of the operating system is of 2 GiB at most


@dataclass(frozen=True)
class TensorEntry:
    """A tensor of the file: its type as the format writes it, its shape and where it lies."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


class TensorFile:
    """An open safetensors file; close it, or use it in a ``with``.

    Attributes
    ----------
    entries : the tensors, by name.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Open a file and read its header.

        Raises
        ------
        ModelError
            There is no such file, or it is none of this format.
        """
        self._where = printable(folder / name, 300)
        self._file = open_file(folder, name)
        try:
            size = os.fstat(self._file.fileno()).st_size
            header, self._start = self._header(size)
            self.entries = _entries(header, size - self._start, self._where)
        except ModelError:
            self._file.close()
            raise

    def __enter__(self) -> TensorFile:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def read(self, name: str) -> NDArray[Any]:
        """A tensor, in the type in which it is stored.

        Raises
        ------
        ModelError
            It is of a type that no weight has, or the file shrank.
        """
        entry = self.entries[name]
        if entry.dtype not in _READABLE:
            raise ModelError(
                f"{self._where}: '{printable(name)}' is of type {entry.dtype}; expected one of "
                f"{', '.join(_READABLE)}: save the model in float32, float16 or bfloat16"
            )
        values = np.empty(entry.shape, _READABLE[entry.dtype])
        self._fill(values.reshape(-1).view(np.uint8), self._start + entry.begin)
        return values

    def _fill(self, target: NDArray[np.uint8], offset: int) -> None:
        done = 0
        while done < target.size:
            part = target[done : done + _AT_ONCE].data
            count = os.preadv(self._file.fileno(), [part], offset + done)
            if count <= 0:
                raise ModelError(f"{self._where}: shrank while it was read; try again")
            done += count

    def _header(self, size: int) -> tuple[Mapping[str, Any], int]:
        """The header, and where the tensors' bytes begin."""
        length = int.from_bytes(self._file.read(8), "little") if size >= 8 else -1
        if not 2 <= length <= min(_MOST_HEADER, size - 8):
            raise ModelError(
                f"{self._where}: no safetensors file, or not whole: of {size} bytes, the header "
                f"is said to take {length}. Copy it again"
            )
        try:
            text = self._file.read(length).decode("utf-8")
            return parse_document(text, f"the header of {self._where}"), 8 + length
        except UnicodeDecodeError:
            raise ModelError(f"{self._where}: its header is not UTF-8 text") from None
        except FormatError as error:
            raise ModelError(str(error)) from None


def _entries(header: Mapping[str, Any], size: int, where: str) -> dict[str, TensorEntry]:
    """The entries of a header, of which the data take ``size`` bytes."""
    entries = {
        name: _entry(name, value, where) for name, value in header.items() if name != "__metadata__"
    }
    at = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].end)):
        if entry.begin != at:
            raise ModelError(
                f"{where}: '{printable(name)}' begins at byte {entry.begin} of the data, but what "
                f"stands before it ends at {at}. Copy the file again"
            )
        at = entry.end
    if at != size:
        raise ModelError(
            f"{where}: its tensors take {at} bytes, but {size} bytes follow the header. "
            "Copy the file again, whole"
        )
    return entries


def _entry(name: str, value: Any, where: str) -> TensorEntry:
    what = f"{where}: '{printable(name)}'"
    if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
        raise ModelError(f"{what}: expected dtype, shape and data_offsets, got {_shown(value)}")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in _BYTES:
        raise ModelError(f"{what}: type {_shown(dtype)} is unknown; known are {', '.join(_BYTES)}")
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise ModelError(
            f"{what}: shape {_shown(shape)} at bytes {_shown(offsets)}; expected integers "
            "from 0 on, and two of them for the bytes"
        )
    begin, end = offsets
    if math.prod(shape) * _BYTES[dtype] != end - begin:
        raise ModelError(
            f"{what}: {_shown(shape)} of {dtype} are {math.prod(shape) * _BYTES[dtype]} bytes, "
            f"but it has bytes {begin} to {end}. Save the model again"
        )
    return TensorEntry(dtype, tuple(shape), begin, end)


def _naturals(values: Any) -> bool:
    """Whether this is a short list of integers, none of them absurd."""
    return (
        isinstance(values, list)
        and len(values) <= 32
        and all(type(v) is int and 0 <= v < 1 << 63 for v in values)
    )


def _shown(value: Any) -> str:
    return printable(json.dumps(value), 100)
