"""Describe the devices of this machine.

Without further wishes:

- several cores and no GPU: two CPU devices, each half of the cores, so that there is something
  to schedule;
- GPUs: one CPU device with all cores, and each GPU;
- one core, or a quota of less than two cores' time (containers have one): one device.

Cores are divided along what they share: between NUMA nodes and last-level caches if there are
enough of them, else between physical cores, so that two devices never fight over one core or,
where it can be helped, one cache. Only one hardware thread of a physical core is used: two
kernels that both fill its multiply-add units gain nothing from sharing it.

What a device can do (`peak_flops`, `bandwidth`, `launch`) is left open: nothing here measures
it, and a guess would look like a fact. Two things are said though they are not measured:

- Each CPU device may use *all* of the RAM. Every task runs on one device, and a tensor that two
  CPU devices share exists once, so the sum over the devices is what one device alone would need.
  (Giving each its share would refuse a model of 60 % of the RAM on any one device.)
- CPU devices have ``overlap: false`` where there are no GPUs. Nothing is copied between them, but
  what another core has written, or has read where something new is written, is fetched line by
  line by the kernels at both ends, which keeps both cores busy. The link's time is that time
  (`tvm_hetero.cost_models.links.measure` measures it: next to nothing where cores share a cache).
  With
  ``overlap: true`` a solver would scatter tasks, as hand-overs then keep no one busy.
- GPUs have copy engines, and the CPU beside them goes on computing: ``overlap: true`` for both.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tvm_hetero.errors import UsageError
from tvm_hetero.platform.core_teams import NONE, make_teams, parse_teams, team_name
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.host import (
    Core,
    Gpu,
    Machine,
    Processor,
    read_core_kind,
    read_machine,
)

# Feature levels of the x86-64 psABI, best first, by the names that Linux gives the flags.
_V2 = {"cx16", "lahf_lm", "popcnt", "pni", "ssse3", "sse4_1", "sse4_2"}
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_LEVELS = (("x86-64-v4", _V4), ("x86-64-v3", _V3), ("x86-64-v2", _V2))
# A virtual machine may hide a feature of the CPU that it runs on; what LLVM emits unasked for
# these must really be there. (They also have pku, movdiri, amx_tile, ..., which only intrinsics
# use.)
_ZEN4 = _V4 | {
    *("avx512vbmi", "avx512_vbmi2", "avx512ifma", "avx512_vnni", "avx512_bitalg"),
    *("avx512_vpopcntdq", "avx512_bf16", "gfni", "vaes", "vpclmulqdq"),
}
_ZEN5 = _ZEN4 | {"avx_vnni", "avx512_vp2intersect"}
# What there is of Intel's with bfloat16, and what virtual machines without tile registers count as.
_COOPER = _V4 | {"avx512_vnni", "avx512_bf16"}
# Sapphire Rapids; Emerald and Granite Rapids have all of it too.
_RAPIDS = _ZEN4 | {"avx_vnni", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"}
_NAMED = {
    "znver4": _ZEN4, "znver5": _ZEN5, "cooperlake": _COOPER, "sapphirerapids": _RAPIDS
}  # fmt: skip


def detect_devices(
    devices: int | None = None,
    mcpus: Sequence[str | None] = (),
    *,
    cores: Iterable[int] | None = None,
    root: str | os.PathLike[str] = "/",
    nvidia_smi: str = "nvidia-smi",
    teams: str = NONE,
) -> tuple[Device, ...]:
    """The devices of this machine.

    Parameters
    ----------
    devices : number of CPU devices; None for the rule in this module's text.
    mcpus : the CPU that LLVM compiles for, device by device; None, and devices beyond the end
        of the list, take this CPU. ``detect_devices(2, [None, "x86-64-v3"])`` makes two unlike
        devices of two like cores.
    cores : the hardware threads to use; by default all that this process may use.
    root, nvidia_smi : see `tvm_hetero.platform.host.read_machine`.
    teams : ``all`` or widths (``1,2,4``) instead of dividing the cores: CPU devices are teams of
        cores, which overlap (`tvm_hetero.platform.core_teams`). ``none``: they are divided.

    Raises
    ------
    UsageError
        If there are fewer cores than devices, more `mcpus` than devices, or teams of a divided CPU.
    """
    machine = read_machine(root, cores, nvidia_smi)
    if cores is None and devices is None:
        machine = _within_quota(machine)
    gpus = [_gpu(i, gpu) for i, gpu in enumerate(machine.gpus)]
    widths = parse_teams(teams)
    if widths is None or widths:
        if devices is not None or len(mcpus) > 1:
            raise UsageError(
                "teams are made of all cores, compiled for one CPU: leave out the number of "
                "devices, and give one mcpu at most"
            )
        return (*_teams(machine, widths, mcpus[0] if mcpus else None, root), *gpus)
    if devices is None:
        devices = default_devices(machine)
    if len(mcpus) > devices:
        raise UsageError(
            f"{len(mcpus)} values of mcpu for {devices} CPU device(s); give at most one each"
        )
    parts = split_cores(machine.cores, devices)
    own = native_mcpu(machine.processor)
    chosen = [mcpu or own for mcpu in (*mcpus, *[None] * (devices - len(mcpus)))]
    cpus = [_cpu(i, parts[i], chosen[i], machine) for i in range(devices)]
    return (*cpus, *gpus)


def _within_quota(machine: Machine) -> Machine:
    """No more cores than those whose time we may have, and one at least: those that share most.

    With more of them, all would be stopped again and again until the quota's next period.
    """
    if machine.quota is None or machine.quota >= len(machine.cores):
        return machine
    count = max(1, int(machine.quota))
    # The first thread of each physical core, then second ones.
    order = sorted(machine.cores, key=lambda c: (c.number != c.physical, c.node, c.cache, c.number))
    kept = tuple(sorted(order[:count], key=lambda core: core.number))
    numbers = ", ".join(str(core.number) for core in kept)
    warnings.warn(
        f"this process may have the time of {machine.quota:g} of {len(machine.cores)} cores (the "
        f"quota of its control group): planned for {'core' if count == 1 else 'cores'} {numbers}",
        stacklevel=3,
    )
    return replace(machine, cores=kept)


def _teams(
    machine: Machine, widths: Sequence[int] | None, mcpu: str | None, root: str | os.PathLike[str]
) -> list[Device]:
    """The CPU's cores as devices that overlap, in one memory: the limit of each is the node's."""
    own = mcpu or native_mcpu(machine.processor)
    found = make_teams(machine.cores, widths, lambda number: read_core_kind(number, root))
    return [replace(_cpu(0, team, own, machine), name=team_name(team)) for team in found]


def default_devices(machine: Machine) -> int:
    """How many CPU devices a machine is divided into when no one says."""
    physical = {core.physical for core in machine.cores}
    return 2 if len(physical) > 1 and not machine.gpus else 1


def native_mcpu(processor: Processor) -> str | None:
    """The ``mcpu`` that makes LLVM use what this CPU has; None to leave it to LLVM (not x86).

    AMD CPUs with AVX-512 are named (Zen 4, Zen 5), because LLVM tunes them for vectors of 512
    bits. For ``x86-64-v4`` and every Intel CPU it prefers 256 bits wherever *it* chooses the
    width; vectors of 512 bits that a kernel asks for (as ours do) stay 512 bits wide. Tried with
    LLVM 22 by counting zmm registers in the assembly. Intel's CPUs from Sapphire Rapids on are
    named for their arithmetic in float16 and bfloat16, which `x86-64-v4` does not have, and for
    their tile registers; where these are hidden or not allowed, Cooper Lake is the name for what is
    left. Features decide, not the model's number: virtual machines were seen that hide it.
    """
    flags = processor.flags
    if processor.vendor == "GenuineIntel" and flags >= _COOPER:
        return "sapphirerapids" if flags >= _RAPIDS else "cooperlake"
    if processor.vendor == "AuthenticAMD":
        if processor.family >= 26 and flags >= _ZEN5:
            return "znver5"
        if processor.family >= 25 and flags >= _ZEN4:
            return "znver4"
    for level, needed in _LEVELS:
        if flags >= needed:
            return level
    return "x86-64" if "sse2" in flags else None


def missing_features(target: Mapping[str, Any] | None, processor: Processor) -> list[str]:
    """What this CPU lacks to run code for `target`, sorted, as Linux names it.

    Empty if nothing is missing, or if nothing is known of the target (another kind of device, a
    CPU that is not in this file's lists, no `mcpu`) or of the processor.
    """
    if not target or target.get("kind") != "llvm" or not processor.flags:
        return []
    needed = {**_NAMED, **dict(_LEVELS)}.get(str(target.get("mcpu")))
    return sorted((needed or set()) - processor.flags)


def split_cores(cores: Sequence[Core], parts: int) -> list[tuple[int, ...]]:
    """Divide cores into `parts` groups of nearly equal size that share as little as possible.

    The cores are put in order of NUMA node, last-level cache and physical core; the order is cut
    at the borders between caches if these are enough, else between physical cores, else (more
    groups than physical cores) between hardware threads.

    Returns
    -------
    list of tuple of int
        Numbers of hardware threads, one for each physical core where there are enough.

    Raises
    ------
    UsageError
        If `parts` is below 1, or above the number of cores.
    """
    check_parts(parts, len(cores))
    order = sorted(cores, key=lambda c: (c.node, c.cache, c.physical, c.number))
    first = {core.physical: core for core in reversed(order)}
    if len(first) >= parts:
        order = [core for core in order if first[core.physical] is core]
    borders = [
        i
        for i in range(1, len(order))
        if (order[i].node, order[i].cache) != (order[i - 1].node, order[i - 1].cache)
    ]
    if len(borders) < parts - 1:
        borders = list(range(1, len(order)))
    cuts = [0, *_even_cuts(borders, parts, len(order)), len(order)]
    numbers = [core.number for core in order]
    return [tuple(sorted(numbers[a:b])) for a, b in pairwise(cuts)]


def check_parts(parts: int, cores: int) -> None:
    """Refuse to divide cores into more parts than there are, or into none.

    Raises
    ------
    UsageError
        If `parts` is below 1, or above the number of cores.
    """
    if not 1 <= parts <= cores:
        raise UsageError(
            f"cannot make {parts} CPU devices of {cores} core(s); expected between 1 and {cores}"
        )


def _even_cuts(borders: Sequence[int], parts: int, total: int) -> list[int]:
    """Choose parts - 1 of the rising `borders`, each as near as can be to its even place."""
    cuts: list[int] = []
    left = 0
    for k in range(1, parts):
        # Leave as many borders to the right as there are cuts still to be made.
        choice = range(left, len(borders) - (parts - 1 - k))
        best = min(choice, key=lambda i: (abs(borders[i] * parts - k * total), i))
        cuts.append(borders[best])
        left = best + 1
    return cuts


def _cpu(i: int, cores: tuple[int, ...], mcpu: str | None, machine: Machine) -> Device:
    target: dict[str, Any] = {"kind": "llvm"}
    if mcpu is not None:
        target["mcpu"] = mcpu
    target["num-cores"] = len(cores)
    return Device(
        name=f"cpu{i}",
        target=target,
        cores=cores,
        memory=machine.memory,
        overlap=bool(machine.gpus),
    )


def _gpu(i: int, gpu: Gpu) -> Device:
    target = {"kind": "cuda", "arch": gpu.arch}
    return Device(name=f"gpu{i}", target=target, memory=gpu.memory, overlap=True)
