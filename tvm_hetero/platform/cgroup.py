"""What the control groups of this process let it use: memory, and time on cores.

A service, a job of SLURM and a container are in a group of their own, deep in a tree; what limits
it stands there or at any group above it, and the least of them counts. Where the tree is mounted,
``/proc/self/mountinfo`` says; where in it this process is, ``/proc/self/cgroup``. A container may
see a part of the tree alone, or paths that are not below what it sees: then what is mounted is
its own group.

Both versions are read, since many systems have both at once (memory in v1's tree, say).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# v1 writes "no limit" as the largest number of pages.
_NONE = 1 << 62


@dataclass(frozen=True)
class GroupLimits:
    """What a process may use.

    Attributes
    ----------
    memory : bytes; None without a limit.
    cores : of time, how many cores' (0.5: half of one); None without a limit.
    """

    memory: int | None = None
    cores: float | None = None


def read_group_limits(root: str | os.PathLike[str] = "/") -> GroupLimits:
    """The limits of this process's groups and all above them.

    Parameters
    ----------
    root : folder in which ``proc`` and ``sys`` are looked for. What is missing limits nothing.
    """
    root = Path(root)
    memory = [
        *(_bytes(group / "memory.max") for group in _groups(root, "")),
        *(_bytes(group / "memory.limit_in_bytes") for group in _groups(root, "memory")),
    ]
    cores = [
        *(_share(_read(group / "cpu.max")) for group in _groups(root, "")),
        *(
            _share(f"{_read(group / 'cpu.cfs_quota_us')} {_read(group / 'cpu.cfs_period_us')}")
            for group in _groups(root, "cpu")
        ),
    ]
    return GroupLimits(
        min((limit for limit in memory if limit), default=None),
        min((share for share in cores if share), default=None),
    )


def read_group_room(root: str | os.PathLike[str] = "/") -> int | None:
    """Bytes that this process's groups may still take before one's limit is met.

    Pages of files that are not in use count as free: the kernel drops those first. None without a
    limit.
    """
    root = Path(root)
    rooms = [
        *(_room(group, "memory.max", "memory.current") for group in _groups(root, "")),
        *(
            _room(group, "memory.limit_in_bytes", "memory.usage_in_bytes")
            for group in _groups(root, "memory")
        ),
    ]
    return min((room for room in rooms if room is not None), default=None)


def _room(group: Path, limit_name: str, used_name: str) -> int | None:
    """Of one group; None if it has no limit, or does not say what it uses."""
    limit, used = _bytes(group / limit_name), _bytes(group / used_name)
    if limit is None or used is None:
        return None
    lines = _read(group / "memory.stat").splitlines()
    rows = {key: value for key, _, value in (line.partition(" ") for line in lines)}
    # v1 counts groups below in rows of their own.
    idle = rows.get("total_inactive_file", rows.get("inactive_file", "0"))
    return max(0, limit - used + (int(idle) if idle.isdecimal() else 0))


def _groups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of our group and those above it; `controller` of v1, "" for v2."""
    own = _own_path(root, controller)
    for place, top in _mounts(root, controller):
        inside = PurePosixPath(own)
        inside = inside.relative_to(top) if inside.is_relative_to(top) else PurePosixPath()
        group = place / inside
        yield from (each for each in (group, *group.parents) if each.is_relative_to(place))


def _mounts(root: Path, controller: str) -> list[tuple[Path, str]]:
    """Where the tree is mounted, and which of its groups is there."""
    found = []
    for line in _read(root / "proc/self/mountinfo").splitlines():
        # number parent device ROOT PLACE options ... - TYPE source OPTIONS
        left, dash, right = line.partition(" - ")
        first, last = left.split(), right.split()
        if not dash or len(first) < 5 or len(last) < 3:
            continue
        is_it = controller in last[2].split(",") if controller else last[0] == "cgroup2"
        if is_it and last[0].startswith("cgroup"):
            found.append((root / first[4].lstrip("/"), first[3]))
    return found or [(root / "sys/fs/cgroup" / controller, "/")]


def _own_path(root: Path, controller: str) -> str:
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controller in controllers.split(","):  # v2's line names none
            return path
    return "/"


def _bytes(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.isdecimal() and 0 < int(text) < _NONE else None


def _share(text: str) -> float | None:
    """Of "QUOTA PERIOD", both in the same unit; "max" or -1 is no quota."""
    words = text.split()
    if len(words) != 2 or not all(word.isdecimal() and int(word) for word in words):
        return None
    return int(words[0]) / int(words[1])


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
