"""Weights in a file in memory: a child writes them there, and who waits for it maps them.

So no byte of a large weight is copied on its way back, nor twice in the child: TVM's tensors there
are the file, mapped. What is written is not read again, so it costs the child no page of its own;
a page that a process touches first costs more than its 4 KiB copied (VGG-19's 575 MB are 140,000).
"""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Any

import numpy as np
import tvm

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_LARGE = 1 << 18
"""Bytes from which on it is worth a mapping of its own."""


class WeightFile:
    """A file in memory, made before the child; to be closed.

    What a parent has mapped stays with what reads it, also after the file is closed.
    """

    def __init__(self) -> None:
        self._file = os.memfd_create("tvm_hetero_weights", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        self._end = 0
        # Tensors by their handles; they are held, so that no other one gets a handle of theirs.
        self._held: dict[int, tuple[tvm.runtime.Tensor, int]] = {}

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def clear(self) -> None:
        """Forget what is written: a child that died may have been here before."""
        os.ftruncate(self._file, 0)
        self._end, self._held = 0, {}

    def tensor(self, array: np.ndarray[Any, Any]) -> tvm.runtime.Tensor:
        """Return an array's tensor, not to be written to; in the file if it is large."""
        if array.nbytes < _LARGE or array.dtype.isbuiltin != 1:  # others are not NumPy's own
            return tvm.runtime.tensor(array)
        start = self._write(np.ascontiguousarray(array))
        mapped = mmap.mmap(self._file, array.nbytes, flags=mmap.MAP_PRIVATE, offset=start)
        made = tvm.runtime.from_dlpack(np.frombuffer(mapped, array.dtype).reshape(array.shape))
        self._held[made.__chandle__()] = made, start
        return made

    def start_of(self, tensor: tvm.runtime.Tensor) -> int | None:
        """Return from which byte on a tensor is in the file, if it is there."""
        found = self._held.get(tensor.__chandle__())
        return None if found is None else found[1]

    def mapped(self) -> memoryview:
        """Return all that is in the file, in memory of this process's own; nobody writes any more.

        Raises
        ------
        MemoryError
            If so much cannot be mapped.
        """
        fcntl.fcntl(self._file, fcntl.F_ADD_SEALS, _SEALS)  # a page cut off would be a SIGBUS
        size = os.fstat(self._file).st_size
        if not size:  # nothing cannot be mapped
            return memoryview(b"")
        try:
            return memoryview(mmap.mmap(self._file, size, flags=mmap.MAP_PRIVATE))
        except OSError as error:
            raise MemoryError(f"{size} bytes of weights: {error.strerror}") from None

    def _write(self, array: np.ndarray[Any, Any]) -> int:
        """Write an array from a page's begin on; returns where that is."""
        start = self._end + -self._end % mmap.PAGESIZE
        rest = array.reshape(-1).view(np.uint8).data
        at = start
        while rest:
            written = os.pwrite(self._file, rest, at)
            rest, at = rest[written:], at + written
        self._end = at
        return start
