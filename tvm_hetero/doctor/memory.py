"""Of the memory: how much is ours, how much is free now, and whether pages may be huge."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tvm_hetero.doctor.finding import Finding
from tvm_hetero.platform.cgroup import read_group_limits
from tvm_hetero.platform.host import Machine, read_free_memory
from tvm_hetero.util.units import format_bytes

_HUGE = "sys/kernel/mm/transparent_hugepage/enabled"


def examine_memory(machine: Machine, root: str | os.PathLike[str] = "/") -> Iterator[Finding]:
    """What is found of the memory of `machine`, which was read below `root`."""
    yield _memory(machine, root)
    yield _huge_pages(Path(root))


def _memory(machine: Machine, root: str | os.PathLike[str]) -> Finding:
    if machine.memory is None:
        return Finding("memory", "unknown: the system does not say")
    limit, free = read_group_limits(root).memory, read_free_memory(root)
    found = format_bytes(machine.memory)
    if limit is not None and limit <= machine.memory:
        found += ", the limit of the control group"
    return Finding("memory", found if free is None else f"{found}; {format_bytes(free)} free now")


def _huge_pages(root: Path) -> Finding:
    """The executor asks for them (src/memory/host_memory.cc); ``never`` says no."""
    try:
        text = (root / _HUGE).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return Finding("huge pages", "unknown: the system does not say")
    chosen = re.search(r"\[(\w+)\]", text)
    found = chosen.group(1) if chosen else "unknown"
    if found != "never":
        return Finding("huge pages", f"{found}: large tensors get them")
    return Finding(
        "huge pages",
        "never",
        f"large tensors would get them: echo madvise > /{_HUGE} (as root)",
    )
