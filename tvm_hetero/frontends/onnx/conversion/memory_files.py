"""Weights in files in memory: a child writes them there, and who waits for it maps them.

So no byte of a large weight is copied on its way back, nor twice in the child: TVM's tensors there
are the file, mapped. What is written is not read again, so it costs the child no page of its own;
a page that a process touches first costs more than its 4 KiB copied (VGG-19's 575 MB are 140,000).

A file lives as long as anything reads it: one table of a language model that is used as it is
kept the weights of all layers, of which others had long taken the place. So there are several,
filled one after another: what is kept keeps one of them, `_LEAST` bytes or an eighth of all.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import tvm

from tvm_hetero.util.private_mapping import map_privately

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_LARGE = 1 << 18
"""Bytes from which on it is worth a mapping of its own."""
_FILES = 48
"""They have to be there before the child. With these shares the last one begins behind 12 GiB."""
_LEAST = 1 << 24
"""Bytes of a file, at least, before the next one is begun."""
_SHARE = 8
Place: TypeAlias = tuple[int, int]
"""The number of a file, and where in it something begins."""


class MemoryFiles:
    """Files in memory, made before the child; to be closed.

    What a parent has mapped stays with what reads it, also after the files are closed.
    """

    def __init__(self) -> None:
        self._files = _made(_FILES)
        self.clear()

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            os.close(file)

    def clear(self) -> None:
        """Forget what is written: a child that died may have been here before."""
        for file in self._files:
            os.ftruncate(file, 0)
        self._current, self._end, self._written = 0, 0, 0
        # Tensors by their handles; they are held, so that no other one gets a handle of theirs.
        self._held: dict[int, tuple[tvm.runtime.Tensor, Place]] = {}

    def tensor(self, array: np.ndarray[Any, Any]) -> tvm.runtime.Tensor:
        """Return an array's tensor, not to be written to; in a file if it is large."""
        if array.nbytes < _LARGE or array.dtype.isbuiltin != 1:  # others are not NumPy's own
            return tvm.runtime.tensor(array)
        file, start = place = self._write(np.ascontiguousarray(array))
        mapped = map_privately(self._files[file], array.nbytes, start)
        made = tvm.runtime.from_dlpack(np.frombuffer(mapped, array.dtype).reshape(array.shape))
        self._held[made.__chandle__()] = made, place
        return made

    def place_of(self, tensor: tvm.runtime.Tensor) -> Place | None:
        """Return in which file a tensor is, and where it begins, if it is in any."""
        found = self._held.get(tensor.__chandle__())
        return None if found is None else found[1]

    def mapped(self) -> Sequence[memoryview]:
        """Return all that is in each file, in memory of this process's own; nobody writes any more.

        Raises
        ------
        MemoryError
            If so much cannot be mapped.
        """
        return [_mapped(file) for file in self._files]

    def _write(self, array: np.ndarray[Any, Any]) -> Place:
        """Write an array from a page's begin on; returns where that is."""
        if self._end >= max(_LEAST, self._written // _SHARE) and self._current + 1 < len(
            self._files
        ):
            self._current, self._end = self._current + 1, 0
        start = self._end + -self._end % mmap.PAGESIZE
        rest = array.reshape(-1).view(np.uint8).data
        at = start
        while rest:
            written = os.pwrite(self._files[self._current], rest, at)
            rest, at = rest[written:], at + written
        self._end = at
        self._written += array.nbytes
        return self._current, start


def _made(count: int) -> list[int]:
    """Make so many files, or half as many as there may be: the others are for the child and us."""
    files: list[int] = []
    spare: list[int] = []
    try:
        while len(files) < count:
            flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
            files.append(os.memfd_create("tvm_hetero_weights", flags))
            spare.append(os.dup(files[0]))
    except OSError:
        if not spare:
            for file in files:
                os.close(file)
            raise
        few = len(spare)
        spare += files[few:]
        del files[few:]
    finally:
        for file in spare:
            os.close(file)
    return files


def _mapped(file: int) -> memoryview:
    """Return what is in a file, sealed."""
    fcntl.fcntl(file, fcntl.F_ADD_SEALS, _SEALS)  # a page cut off would be a SIGBUS
    size = os.fstat(file).st_size
    if not size:  # nothing cannot be mapped
        return memoryview(b"")
    return map_privately(file, size)
