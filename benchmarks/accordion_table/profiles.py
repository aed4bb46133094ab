"""Profiles of recorded networks on 1 to n equal cores (benchmarks/recordings, `benchmarks.record`).

Pipelines, after the paper: the exact contiguous optimum over k single cores, by recorded seconds of
every block. The first item takes the sum of all blocks, the others follow at the bottleneck.

Teams, for Packrat: one operator on t cores at a time. Recorded are one core and two; more by
Amdahl's law with the serial part that these two show. A batch of b items takes b times one item:
nothing is known here of what a batch saves.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

from tvm_hetero.online.configuration import Place
from tvm_hetero.online.optimum import find_optimum
from tvm_hetero.online.table import Recording
from tvm_hetero.serve.models.served_times import ServedTimes
from tvm_hetero.serve.scheduling.course import Pace
from tvm_hetero.serve.scheduling.policies.packrat import best_instances
from tvm_hetero.serve.scheduling.profile import FEW as SAMPLES
from tvm_hetero.serve.scheduling.profile import ModelTimes, ServiceProfile

RECORDINGS = Path(__file__).parent.parent / "recordings"
KIND = "native"


@cache
def load_recording(model: str) -> Recording:
    """A recording of this repository."""
    return Recording.load(RECORDINGS / f"{model}.json")


@cache
def pipeline_paces(model: str, places: int) -> tuple[Pace, ...]:
    """Fill and period of the best pipelines over 1, 2, ... single cores."""
    recording = load_recording(model)
    cores = tuple(Place(f"core{i}", KIND, (i,)) for i in range(places))
    seconds = recording.seconds_on(cores)
    fill = math.fsum(row[0] for row in seconds)
    found: list[Pace] = []
    for count in range(1, places + 1):
        rows = [row[:count] for row in seconds]
        found.append(Pace(fill, find_optimum(rows, cores[:count]).bottleneck))
    return tuple(found)


def pipelines(models: tuple[str, ...], places: int) -> ServiceProfile:
    """A profile of pipelines."""
    return ServiceProfile({name: ModelTimes(pipeline_paces(name, places)) for name in models})


@cache
def team_seconds(model: str, threads: int) -> float:
    """Seconds of one item with all operators on a team of so many cores."""
    recording = load_recording(model)
    one, two = (
        sum(recording.column("alone", Place("team", KIND, tuple(range(width))))) for width in (1, 2)
    )
    serial = max(0.0, min(1.0, 2 * two / one - 1))
    return one * (serial + (1 - serial) / threads)


def served(models: tuple[str, ...], places: int) -> ServiceProfile:
    """As a server has them: one item by all operators on a team, several through a pipeline."""
    found = {}
    for name in models:
        alone = [Pace(t, t) for t in (team_seconds(name, k) for k in range(1, places + 1))]
        found[name] = ServedTimes(alone, pipeline_paces(name, places))
    return ServiceProfile(found)


@cache
def instance_seconds(model: str, items: int, places: int) -> float:
    """Seconds of so many items on Packrat's best instances."""

    def seconds(threads: int, batch: int) -> float:
        return batch * team_seconds(model, threads)

    return best_instances(seconds, items, places)


def instances(models: tuple[str, ...], places: int, items: tuple[int, ...]) -> ServiceProfile:
    """A profile of Packrat's best instances, threads and batches for these numbers of items."""
    counts = range(1, places + 1)
    found = {}
    for model in models:
        alone = (instance_seconds(model, 1, k) for k in counts)
        times = ModelTimes([Pace(t, t) for t in alone])
        for count in items:
            for k in counts:
                for _ in range(SAMPLES):
                    times.add(count, k, instance_seconds(model, count, k))
        found[model] = times
    return ServiceProfile(found)
