"""Of the disks: the cache's folder and the one for temporary files, and whether code runs there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tvm_hetero.doctor.finding import Finding
from tvm_hetero.errors import HeteroError
from tvm_hetero.util.cache_dir import cache_dir
from tvm_hetero.util.code_folder import code_folder, is_noexec, temporary_folder
from tvm_hetero.util.text_tables import count_noun
from tvm_hetero.util.units import format_bytes

# With less than that free, kernels and artifacts of ordinary networks may not fit.
_LITTLE = 1 << 30


def examine_folders() -> Iterator[Finding]:
    """What is found of the cache's folder (which is made, if need be) and of ``TMPDIR``."""
    try:
        path = cache_dir()
    except HeteroError as error:
        yield Finding("cache", "cannot be used", str(error), is_fault=True)
    else:
        yield _cache(path)
    yield _temporary()


def _cache(path: Path) -> Finding:
    count, size = _size(path)
    free = shutil.disk_usage(path).free
    found = f"{path}: {count_noun(count, 'file')}, {format_bytes(size)}; {format_bytes(free)} free"
    little = (
        "little is free: delete the folder's contents (all of it can be measured and compiled "
        "again), or set TVM_HETERO_CACHE to another disk"
    )
    return Finding("cache", found, little if free < _LITTLE else "")


def _size(folder: Path) -> tuple[int, int]:
    """Files below a folder, and their bytes; what vanishes meanwhile does not count."""
    count = size = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                size += os.lstat(os.path.join(place, name)).st_size
                count += 1
            except OSError:
                continue
    return count, size


def _temporary() -> Finding:
    try:
        usual = temporary_folder()
    except HeteroError as error:
        return Finding("temporary files", "there is no folder", str(error), is_fault=True)
    if not is_noexec(usual):
        return Finding("temporary files", f"{usual}, from which code can be loaded")
    try:
        used = code_folder()
    except HeteroError as error:
        return Finding("temporary files", f"{usual}, noexec", str(error), is_fault=True)
    return Finding(
        "temporary files",
        f"{usual}, noexec: compiled code is made in {used}",
        "if the cache's file system is slow, set TMPDIR to a folder of one that takes code",
    )
