"""Bytes of a file as memory: no descriptor is kept, and they outlive the file."""

from __future__ import annotations

import gc
import mmap
import os
import tempfile

import numpy as np
import pytest

from tests.descriptors import open_descriptors
from tvm_hetero.util.private_mapping import map_privately


def mappings(name: str) -> int:
    """How often a file in memory is mapped."""
    with open("/proc/self/maps", encoding="ascii") as lines:
        return sum(f"/memfd:{name} " in line for line in lines)


def test_a_mapping_outlives_its_file_without_a_descriptor_and_goes_with_its_last_reader() -> None:
    page = mmap.PAGESIZE
    file = os.memfd_create("tvm_hetero_test_mapping")
    os.write(file, bytes(page) + b"answer" + bytes(page))
    before = open_descriptors()
    mapped = map_privately(file, page + 6, page)
    mapped[:2] = b"AN"
    assert os.pread(file, 6, page) == b"answer"
    assert open_descriptors() <= before
    os.close(file)
    reader = np.frombuffer(mapped, np.uint8, 6)
    del mapped
    gc.collect()
    assert (bytes(reader), mappings("tvm_hetero_test_mapping")) == (b"ANswer", 1)
    del reader
    gc.collect()
    assert mappings("tvm_hetero_test_mapping") == 0


def test_what_cannot_be_mapped_is_refused() -> None:
    with tempfile.TemporaryFile() as file:
        with pytest.raises(MemoryError, match="1152921504606846976 bytes cannot be mapped"):
            map_privately(file.fileno(), 1 << 60)
        with pytest.raises(OSError, match="Invalid argument"):
            map_privately(file.fileno(), 5, 3)
    with pytest.raises(OSError, match="Bad file descriptor"):
        map_privately(-1, 5)
