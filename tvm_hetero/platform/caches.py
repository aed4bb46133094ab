"""The caches of a core, as Linux lists them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from tvm_hetero.platform.host import parse_core_list

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class CoreCache:
    """A cache for data: its level, its size in bytes, and the hardware threads that share it."""

    level: int
    bytes: int
    shared_by: tuple[int, ...]


def read_caches(number: int, root: str | os.PathLike[str] = "/") -> tuple[CoreCache, ...]:
    """The caches for data of a hardware thread, nearest first; none where they are not listed.

    Parameters
    ----------
    number : of the hardware thread.
    root : folder in which ``sys`` is looked for.
    """
    here = Path(root) / f"sys/devices/system/cpu/cpu{number}/cache"
    found = [_read_cache(path) for path in here.glob("index*")]
    return tuple(sorted((c for c in found if c is not None), key=lambda cache: cache.level))


def _read_cache(path: Path) -> CoreCache | None:
    level, size = _read(path / "level"), _read(path / "size")
    if _read(path / "type") == "Instruction" or not level.isdecimal():
        return None
    digits, unit = (size[:-1], _UNITS[size[-1]]) if size[-1:] in _UNITS else (size, 1)
    if not digits.isdecimal():
        return None
    shared_by = parse_core_list(_read(path / "shared_cpu_list"))
    return CoreCache(int(level), int(digits) * unit, shared_by)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
