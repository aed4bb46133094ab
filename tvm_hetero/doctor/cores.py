"""Of the processor: which hardware threads are ours, what they share, and whose time they have.

What the machine has is read by `tvm_hetero.platform.host` and `tvm_hetero.platform.cgroup`; here it
is held beside what the whole machine has.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tvm_hetero.doctor.finding import Finding
from tvm_hetero.platform.caches import read_caches
from tvm_hetero.platform.discovery import native_mcpu
from tvm_hetero.platform.energy_counters import find_energy_zones, why_not_measured
from tvm_hetero.platform.host import (
    Core,
    Machine,
    parse_core_list,
    read_core_kind,
    read_listed_processor,
)
from tvm_hetero.util.text_tables import count_noun
from tvm_hetero.util.units import format_bytes

_CPUS = "sys/devices/system/cpu"


def examine_cores(machine: Machine, root: str | os.PathLike[str] = "/") -> Iterator[Finding]:
    """What is found of the cores of `machine`, which was read below `root`."""
    yield Finding("processor", machine.processor.identity)
    yield _instructions(machine, root)
    yield _affinity(machine, Path(root))
    yield _threads(machine.cores)
    yield _kinds(machine.cores, root)
    yield _caches(machine.cores, root)
    yield _quota(machine)
    yield from _clock(machine.cores, Path(root))
    yield _energy(root)


def _energy(root: str | os.PathLike[str]) -> Finding:
    """Whether `bench` can say what a run takes; plans count with the watts of the platform."""
    why = why_not_measured(root)
    if why is None:
        names = ", ".join(zone.name for zone in find_energy_zones(root))
        return Finding("energy", f"measured, of {names}")
    return Finding("energy", f"not measured, watts are those given: {why}")


def _instructions(machine: Machine, root: str | os.PathLike[str]) -> Finding:
    mcpu = native_mcpu(machine.processor) or "what LLVM finds"
    denied = read_listed_processor(root).flags - machine.processor.flags
    found = f"kernels are compiled for {mcpu}"
    if not denied:
        return Finding("instructions", found)
    return Finding(
        "instructions",
        found,
        f"the system does not let this process use {', '.join(sorted(denied))}, which old kernels "
        "of Linux do not hand out; run it on a newer one",
    )


def _affinity(machine: Machine, root: Path) -> Finding:
    ours = [core.number for core in machine.cores]
    online = parse_core_list(_read(root / _CPUS / "online")) or tuple(ours)
    found = f"{len(ours)} of {len(online)}: {_numbers(ours)}"
    if len(ours) >= len(online):
        return Finding("hardware threads", found)
    return Finding(
        "hardware threads",
        found,
        "the others are kept from this process (taskset, a container's cpuset, a job's share); "
        "to use them, start it without",
    )


def _threads(cores: Sequence[Core]) -> Finding:
    """Cores, and whether two threads of one are ours; a device is given one of each."""
    each = Counter(core.physical for core in cores)
    nodes = len({core.node for core in cores})
    found = f"{count_noun(len(each), 'core')} on {count_noun(nodes, 'NUMA node')}"
    if len(each) == len(cores):
        return Finding("cores", f"{found}, one hardware thread of each")
    return Finding("cores", f"{found}; SMT: of each core the first hardware thread is used")


def _kinds(cores: Sequence[Core], root: str | os.PathLike[str]) -> Finding:
    kinds = Counter(read_core_kind(core.number, root) for core in cores)
    if len(kinds) == 1:
        return Finding("kinds of cores", "all alike")
    numbers = sorted(kinds.values(), reverse=True)
    return Finding(
        "kinds of cores",
        " and ".join(str(n) for n in numbers) + " hardware threads of a kind each",
        "a device should have cores of one kind: tvm-hetero devices --teams all makes such ones",
    )


def _caches(cores: Sequence[Core], root: str | os.PathLike[str]) -> Finding:
    caches = read_caches(cores[0].number, root)
    if not caches:
        return Finding("caches", "unknown: the system does not list them")
    sizes = [f"L{cache.level} {format_bytes(cache.bytes)}" for cache in caches]
    last = len({core.cache for core in cores})
    return Finding("caches", f"{', '.join(sizes)} ({count_noun(last, 'last-level cache')})")


def _quota(machine: Machine) -> Finding:
    if machine.quota is None:
        return Finding("time on cores", "no quota")
    found = f"the time of {machine.quota:g} of {len(machine.cores)} hardware threads"
    if machine.quota >= len(machine.cores):
        return Finding("time on cores", found)
    return Finding(
        "time on cores",
        found,
        "the quota of the control group stops threads again and again: give it whole cores "
        "(docker --cpus, cpu.max), or keep the process on as many (taskset)",
    )


def _clock(cores: Sequence[Core], root: Path) -> Iterator[Finding]:
    """The governor, where the system lets clocks be set; virtual machines have none."""
    governors = {
        _read(root / _CPUS / f"cpu{core.number}" / "cpufreq/scaling_governor").strip()
        for core in cores
    } - {""}
    if not governors:
        return
    found = ", ".join(sorted(governors))
    slow = "" if governors <= {"performance", "schedutil"} else (
        "clocks that follow the load make measured costs differ from run to run: "
        "cpupower frequency-set -g performance"
    )  # fmt: skip
    yield Finding("clock governor", found, slow)


def _numbers(numbers: Sequence[int]) -> str:
    """``0-3, 8``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
