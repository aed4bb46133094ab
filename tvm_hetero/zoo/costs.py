"""What a work graph costs on a platform: a roofline with a share of the peak for each kind.

n elements of a task with F operations and B bytes of inputs, outputs and cache each, and S(n) bytes
of weights that are read once for all of them, take on a device of peak P and bandwidth W

    L + max(n F / (e h P), (S(n) + n B) / W)

seconds (see `tvm_hetero.platform.roofline`). e is the share of the peak that this kind of work
reaches on this family of devices, h how much faster its matrix units are with 16-bit numbers. Of
weights of which an element needs a random share q, n elements read S(n) = (1 - (1 - q)^n) S (rows
of a table, experts of a mixture). Peaks and bandwidths come from data sheets; the shares e are
assumptions of ours, the same for all devices of a family, chosen so that devices rank differently
on different kinds of work, as real ones do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.errors import PlatformError
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.platform.roofline import computes, roofline
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.graph import Task, TaskGraph
from tvm_hetero.problem.model import Problem
from tvm_hetero.problem.objective_kinds import Objective
from tvm_hetero.zoo.hardware import half_rates
from tvm_hetero.zoo.work_graph import HALF, LayerWork, WorkGraph

# Kinds of the TVM targets in whose memory inputs arrive and outputs are wanted.
_HOSTS = frozenset({"llvm", "c"})
_MATRIX = frozenset({"conv", "gemm", "product", "attention", "rnn"})


@dataclass(frozen=True)
class CostFamily:
    """How devices of one family take to kinds of work.

    `shares` maps a kind of work to the share of the peak that it reaches; a kind that is not there
    cannot be run. `half` is the rate of matrix operations in 16 bits over that in 32 bits.
    """

    shares: dict[str, float]
    half: float = 1.0


def _family(
    conv: float, depthwise: float, gemm: float, attention: float, rnn: float, half: float = 1.0
) -> CostFamily:
    shares = {"conv": conv, "depthwise": depthwise, "gemm": gemm, "attention": attention}
    alone = {"product": gemm, "elementwise": 0.5, "lookup": 0.5, "rowwise": 0.5}
    return CostFamily({**shares, **alone, "rnn": rnn}, half)


# The shares with which the solvers were first compared (the platforms `sched-*`): a processor loses
# little on any kind; a large GPU is starved by thin work (depthwise convolutions, single heads), a
# smaller one less so.
_CPU = _family(0.6, 0.4, 0.8, 0.6, 0.6)
_LARGE = _family(0.55, 0.10, 0.7, 0.35, 0.4)
_SMALL = _family(0.75, 0.25, 0.75, 0.55, 0.6)


def _faster(family: CostFamily, half: float) -> CostFamily:
    return CostFamily(family.shares, half)


_HALF = half_rates()

# By the target's `tag`, `arch` or `mcpu`, else by its kind.
FAMILIES: dict[str, CostFamily] = {
    "llvm": _CPU,
    "c": _CPU,
    "cuda": _LARGE,
    "rocm": _LARGE,
    "sched/gpu-a": _LARGE,
    "sched/gpu-b": _SMALL,
    "sm_70": _faster(_LARGE, _HALF["sm_70"]),
    "sm_75": _faster(_SMALL, _HALF["sm_75"]),
    "sm_80": _faster(_LARGE, _HALF["sm_80"]),
    "sm_89": _faster(_SMALL, _HALF["sm_89"]),
    "sm_90": _faster(_LARGE, _HALF["sm_90"]),
    "sapphirerapids": _faster(_CPU, _HALF["sapphirerapids"]),
    "opencl": _SMALL,
    "vulkan": _SMALL,
    "metal": _SMALL,
    # A neural unit is a systolic array: dense products only, element by element it crawls.
    "hexagon": CostFamily(
        {"conv": 0.5, "depthwise": 0.08, "gemm": 0.5, "product": 0.5}
        | dict.fromkeys(("elementwise", "lookup", "rowwise"), 0.05)
    ),
}


def family_of(device: Device) -> CostFamily:
    """The family of a device: its own units, or by the tag or model of its target, or its kind."""
    if device.units is not None:
        return CostFamily(dict(device.units.work))
    target = device.target or {}
    for key in ("tag", "arch", "mcpu", "kind"):
        known = FAMILIES.get(str(target.get(key)))
        if known is not None:
            return known
    return _CPU


def make_problem(
    graph: WorkGraph, platform: Platform, objective: Objective, in_flight: int = 1
) -> Problem:
    """The problem of running `graph` on `platform`.

    Inputs and outputs are free tasks on the processors. Keys and values that a step reads (`cache`)
    count as weights, for each element of each of `in_flight` batches that are under way together: a
    device that runs the task keeps room for all of it.

    Raises
    ------
    PlatformError
        If a device that computes lacks `peak_flops` or `bandwidth`, or no device can run a task.
    """
    prices = _PriceList(platform, objective.batch, graph.width)
    costs = {work.id: prices.row(work) for work in graph.works}
    tasks = [_task(work, in_flight * objective.batch) for work in graph.works]
    name = f"{graph.name} on {platform.name}"
    return Problem(TaskGraph(tasks, graph.edges), costs, platform, objective, name)


def _task(work: LayerWork, sequences: int) -> Task:
    return Task(
        id=work.id,
        op=work.op,
        weight_bytes=work.weights + sequences * work.cache,
        output_bytes=work.output,
        flops=work.flops,
        bytes=work.memory_traffic(1),
    )


class _PriceList:
    """Costs on all devices; equal work shares one row, for graphs of 100,000 tasks."""

    def __init__(self, platform: Platform, batch: int, width: int) -> None:
        self.devices = [device for device in platform.devices if computes(device)]
        self.sizes = table_sizes(batch)
        self.width = width
        self._known: dict[tuple[object, ...], dict[str, Cost]] = {}

    def row(self, work: LayerWork) -> dict[str, Cost]:
        """What `work` costs on every device that can run it."""
        key = (work.kind, work.flops, work.traffic, work.weights, work.share, work.cache)
        if key not in self._known:
            self._known[key] = self._new_row(work)
        return self._known[key]

    def _new_row(self, work: LayerWork) -> dict[str, Cost]:
        if work.kind in ("input", "output"):
            row = {d.name: Cost(((1, 0.0),)) for d in self.devices if _is_host(d)}
        else:
            able = [d for d in self.devices if _can_run(work.kind, self.width, d)]
            row = {d.name: self._cost(work, d) for d in able}
        if not row:
            raise PlatformError(
                f"no device can run task {work.id!r} ({work.kind}); add one that can, "
                "such as a processor with a target {kind: llvm}"
            )
        return row

    def _cost(self, work: LayerWork, device: Device) -> Cost:
        family = family_of(device)
        share = family.shares[work.kind]
        if self.width == HALF and work.kind in _MATRIX:
            share *= family.half
        return Cost(
            tuple(
                (n, roofline(n * work.flops, work.memory_traffic(n), device, share))
                for n in self.sizes
            )
        )


def table_sizes(batch: int) -> Sequence[int]:
    """The batch sizes that costs are given for: 1, 2, 4, ... and `batch` itself."""
    sizes = [1]
    while 2 * sizes[-1] < batch:
        sizes.append(2 * sizes[-1])
    return sizes if batch == 1 else [*sizes, batch]


def _is_host(device: Device) -> bool:
    return device.kind in _HOSTS


def _can_run(kind: str, width: int, device: Device) -> bool:
    """Whether a device does this kind of work with numbers of `width` bytes."""
    if device.units is not None:
        return device.units.can_run(kind, width)
    return kind in family_of(device).shares
