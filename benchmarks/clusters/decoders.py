"""Decoders on so many nodes: a pipeline of stages, planned by a roofline of each node's core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tvm_hetero.cluster.description import LOCAL, Description, NodeRow
from tvm_hetero.cluster.replan import ScheduledModel
from tvm_hetero.frontends.huggingface import from_huggingface
from tvm_hetero.passes.attributes import STATE_SETS
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.platform import Fabric, Platform
from tvm_hetero.problem import Objective
from tvm_hetero.solvers import Options, solve

# A core's arithmetic and memory, roughly: they decide where stages are cut; cores are alike.
_FLOPS, _BANDWIDTH = 1e11, 2e10
# A network with which plans for tiny models use all nodes too.
FREE = (1e15, 0.0)


def description(count: int) -> Description:
    """So many nodes on this machine, each with a core of its own while there are as many."""
    cores = sorted(os.sched_getaffinity(0))
    several = len(cores) >= count
    rows = [NodeRow(f"node{i}", (cores[i],) if several else ()) for i in range(count)]
    return Description(LOCAL, tuple(rows))


def platform(nodes: Sequence[str], network: tuple[float, float]) -> Platform:
    """A core for each node."""
    cores = sorted(os.sched_getaffinity(0))
    own = Platform.detect(1, cores=cores[:1]).devices[0]
    roof = {"peak_flops": _FLOPS, "bandwidth": _BANDWIDTH, "launch": 1e-6, "memory": None}
    devices = tuple(
        replace(own, name=f"{node}.cpu0", node=node, cores=(cores[i % len(cores)],), **roof)
        for i, node in enumerate(nodes)
    )
    fabrics = (Fabric(None, *network),) if len(nodes) > 1 else ()
    return Platform(devices, (), fabrics, "nodes")


def placed(
    folder: Path, place: Platform, *, tokens: int, batch: int, length: int, groups: int
) -> ScheduledModel:
    """A step (or a prefill) of a model, as a pipeline over the platform's nodes."""
    module = from_huggingface(folder, tokens=tokens, length=length)
    module["main"] = module["main"].with_attr(STATE_SETS, groups)
    several = len(place.devices) > 1
    limit = Options(time_limit=2.0, gap=0.01)
    goal = Objective("throughput", batch=batch, contiguous=several)
    prepared = make_problem(
        module, place, PartitionOptions(objective=goal, cost_model="analytical")
    )
    schedule = solve(prepared.problem, "auto", limit)
    return ScheduledModel(prepared.module, prepared.problem, schedule)
