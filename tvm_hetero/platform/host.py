"""What this machine has: processor, cores and how they share caches, memory, GPUs.

Everything is read from the files that Linux keeps for it (``/proc/cpuinfo``, ``/proc/meminfo``,
``/sys/devices/system``) and from ``nvidia-smi``. A file that is missing makes its answer vaguer,
never an error: a container may hide any of them. What to make of the answers is decided in
`tvm_hetero.platform.discovery`.
"""

from __future__ import annotations

import csv
import math
import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tvm_hetero.platform.amx_permission import TILES, ask_for_tiles
from tvm_hetero.platform.cgroup import read_group_limits, read_group_room

_SMI_FIELDS = ("index", "uuid", "name", "memory.total", "compute_cap")
# nvidia-smi takes seconds on a machine with many GPUs; one that takes longer than this hangs.
_SMI_SECONDS = 30.0


@dataclass(frozen=True)
class Processor:
    """The CPU: who made it, which generation it is, what it can do."""

    vendor: str = ""
    family: int = 0
    model: int = 0
    stepping: int = 0
    name: str = ""
    flags: frozenset[str] = frozenset()

    @property
    def identity(self) -> str:
        """One line that tells CPUs apart. A virtual machine's name alone often does not."""
        numbers = f"{self.family}/{self.model}/{self.stepping}"
        return f"{self.vendor or 'unknown'} {numbers} {self.name}".strip()


@dataclass(frozen=True)
class Core:
    """One hardware thread: its number, and what it shares with which others.

    `package`, `node` (NUMA) and `cache` (last level) are equal for hardware threads that share
    them; `physical` is the smallest number among the hardware threads of the same core.
    """

    number: int
    physical: int
    cache: int = 0
    node: int = 0


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU. `memory` in bytes; `arch` as TVM's cuda target wants it (``sm_90``)."""

    name: str
    memory: int
    arch: str


@dataclass(frozen=True)
class Machine:
    """This machine, as this process may use it.

    Attributes
    ----------
    memory : RAM, bytes; None if unknown.
    quota : time on cores, how many cores' (0.5: half of one); None without a limit.
    """

    processor: Processor
    cores: tuple[Core, ...]
    memory: int | None
    gpus: tuple[Gpu, ...] = ()
    quota: float | None = None


def read_machine(
    root: str | os.PathLike[str] = "/",
    cores: Iterable[int] | None = None,
    nvidia_smi: str = "nvidia-smi",
) -> Machine:
    """Find out what this machine is.

    Parameters
    ----------
    root : folder in which ``proc`` and ``sys`` are looked for.
    cores : the hardware threads that may be used; by default those of this process's affinity.
    nvidia_smi : the program that is asked for GPUs; where there is none there are no GPUs.
    """
    root = Path(root)
    numbers = sorted(available_cores() if cores is None else set(cores))
    return Machine(
        processor=read_processor(root),
        cores=tuple(_read_core(root, number) for number in numbers),
        memory=read_memory(root),
        gpus=read_gpus(nvidia_smi),
        quota=read_group_limits(root).cores,
    )


def cores_ever_allowed() -> frozenset[int]:
    """The hardware threads that were this process's when it began, its threads' now, or both.

    The kernel lets a thread out of an inherited mask (``taskset``, ``numactl``), and libraries pin
    the threads that call them: who asks what was given to this process asks this.
    """
    if not hasattr(os, "sched_getaffinity"):
        return frozenset(range(os.cpu_count() or 1))
    return _AT_FIRST.union(*(os.sched_getaffinity(thread) for thread in (0, os.getpid())))


def available_cores() -> frozenset[int]:
    """The hardware threads that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))


def cores_at_once() -> int:
    """How many threads can compute at a time: by the cores that are ours, and by our quota."""
    quota = read_group_limits().cores
    cores = len(available_cores())
    return cores if quota is None else max(1, min(cores, math.ceil(quota)))


# When this is imported, mostly before any library pins a thread.
_AT_FIRST = available_cores()


def read_processor(root: str | os.PathLike[str] = "/") -> Processor:
    """The CPU, from ``/proc/cpuinfo`` (its first processor; x86 and Arm write other keys).

    Of this machine's flags those of tile registers count only where the system lets this process
    use them, which it is asked for here (`amx_permission`).
    """
    listed = read_listed_processor(root)
    tiles = {flag for flag in listed.flags if flag.startswith(TILES)}
    if tiles and Path(root) == Path("/") and not ask_for_tiles():
        return replace(listed, flags=listed.flags - tiles)
    return listed


def read_listed_processor(root: str | os.PathLike[str] = "/") -> Processor:
    """The CPU with all flags that the system lists, those of tile registers too."""
    fields: dict[str, str] = {}
    for line in _read(Path(root) / "proc/cpuinfo").splitlines():
        key, colon, value = line.partition(":")
        if not colon:
            if fields:
                break
            continue
        fields[key.strip()] = value.strip()
    flags = frozenset(fields.get("flags", fields.get("Features", "")).split())
    return Processor(
        vendor=fields.get("vendor_id", fields.get("CPU implementer", "")),
        family=_number(fields.get("cpu family", fields.get("CPU architecture", ""))),
        model=_number(fields.get("model", fields.get("CPU part", ""))),
        stepping=_number(fields.get("stepping", fields.get("CPU revision", ""))),
        name=fields.get("model name", ""),
        flags=flags,
    )


def read_memory(root: str | os.PathLike[str] = "/") -> int | None:
    """RAM in bytes: all of the machine's, or the limit of our control groups if that is smaller.

    The total and not what is free now, so that the same machine is described alike every time.
    """
    limits = [_meminfo(root, "MemTotal") or 0, read_group_limits(root).memory or 0]
    return min((limit for limit in limits if limit > 0), default=None)


def read_free_memory(root: str | os.PathLike[str] = "/") -> int | None:
    """RAM in bytes that this process could have now; None if unknown.

    What the machine has left, or less where a control group's limit is nearer.
    """
    free, room = _meminfo(root, "MemAvailable"), read_group_room(root)
    return free if room is None or free is None else min(free, room)


def _meminfo(root: str | os.PathLike[str], key: str) -> int | None:
    """A row of ``/proc/meminfo``, in bytes."""
    words = [line.split() for line in _read(Path(root) / "proc/meminfo").splitlines()]
    return next((_number(w[1]) * 1024 for w in words if len(w) >= 2 and w[0] == f"{key}:"), None)


def read_gpus(program: str = "nvidia-smi") -> tuple[Gpu, ...]:
    """The NVIDIA GPUs that CUDA will show a process, in CUDA's order.

    ``CUDA_VISIBLE_DEVICES`` is obeyed, since the n-th device here must be CUDA's n-th.
    """
    path = shutil.which(program)
    if path is None:
        return ()
    command = [path, f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ()  # a driver that is not loaded: there is a program but no GPU
    rows = [[cell.strip() for cell in row] for row in csv.reader(done.stdout.splitlines())]
    whole = [row for row in rows if len(row) == len(_SMI_FIELDS) and _number(row[3]) > 0]
    return tuple(
        Gpu(name=row[2], memory=_number(row[3]) * 1024**2, arch=f"sm_{row[4].replace('.', '')}")
        for row in _visible(whole, os.environ.get("CUDA_VISIBLE_DEVICES"))
    )


def _visible(rows: Sequence[list[str]], wanted: str | None) -> list[list[str]]:
    """The rows that ``CUDA_VISIBLE_DEVICES`` names by index or start of a UUID, in its order."""
    if wanted is None:
        return list(rows)
    result = []
    for name in (part.strip() for part in wanted.split(",")):
        found = [r for r in rows if r[0] == name or (name and r[1].startswith(name))]
        if not found:
            break  # CUDA ignores everything after the first name that it does not know
        result.append(found[0])
    return result


def _read_core(root: Path, number: int) -> Core:
    here = root / f"sys/devices/system/cpu/cpu{number}"
    siblings = parse_core_list(_read(here / "topology/thread_siblings_list"))
    caches = sorted((here / "cache").glob("index*"), key=lambda p: _number(_read(p / "level")))
    sharing = parse_core_list(_read(caches[-1] / "shared_cpu_list")) if caches else ()
    nodes = [_number(path.name.removeprefix("node")) for path in here.glob("node[0-9]*")]
    return Core(
        number=number,
        physical=min(siblings, default=number),
        cache=min(sharing, default=0),
        node=min(nodes, default=0),
    )


def read_core_kind(number: int, root: str | os.PathLike[str] = "/") -> tuple[str, ...]:
    """What tells cores of one CPU apart, as far as Linux says it: capacity, highest clock, sizes of
    caches. Equal for cores of one kind; big and little ones differ in some of it.
    """
    here = Path(root) / f"sys/devices/system/cpu/cpu{number}"
    sizes = [_read(path / "size") for path in sorted((here / "cache").glob("index*"))]
    return (_read(here / "cpu_capacity"), _read(here / "cpufreq/cpuinfo_max_freq"), *sizes)


def parse_core_list(text: str) -> tuple[int, ...]:
    """Read a list as Linux writes it: ``0-3,8`` is 0, 1, 2, 3, 8. What is no list is empty."""
    result: list[int] = []
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            return ()
        result.extend(range(int(first), int(last if dash else first) + 1))
    return tuple(result)


def _number(text: str) -> int:
    """An integer, decimal or 0x..., or 0."""
    try:
        return int(text.strip(), 0)
    except ValueError:
        return 0


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
