"""Policies of serving on real cores: the same queries for each, in turns, in one run.

    python -m benchmarks.accordion_live            writes results/accordion_live.json (18 minutes)
    python -m benchmarks.accordion_live --small    seconds, two policies, no file (the tests run it)
    python -m benchmarks.accordion_live --cell strict/low --seeds 5 --seconds 3 --output FILE
                                                   one cell, other streams

Two networks of the zoo's light models are partitioned for this machine's cores and served by a pool
(`tvm_hetero.serve.models.pool_dispatcher`), without HTTP. What a share takes is measured first, on
the idle machine; all policies begin every stream with these samples and nothing else, as in the
replay. Policies take turns stream by stream, so that what else the machine does meets all of them.
A query is sent at its time whether or not others have been answered. Late is who ends after its
deadline; refused counts as late, too. Figures are means over the seeds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.documents import rounded
from benchmarks.execution.cases import TINY, make_model
from benchmarks.result_rows import write_rows
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.serve.core.query import InferenceQuery
from tvm_hetero.serve.core.refusal import RefusedError
from tvm_hetero.serve.models.pool_dispatcher import PoolDispatcher
from tvm_hetero.serve.models.tensor_model import TensorModel
from tvm_hetero.serve.scheduling.arrivals import (
    SLO_LEVELS,
    QueryMix,
    draw_poisson,
    mean_work,
    slo_rule,
)
from tvm_hetero.serve.scheduling.outcome import QueryOutcome, ServingFigures, figures_of
from tvm_hetero.serve.scheduling.policies import SHARE_POLICIES
from tvm_hetero.serve.scheduling.query import Query, RefuseQuery

RESULTS = Path(__file__).with_name("results") / "accordion_live.json"
NETWORKS = ("resnet50", "squeezenet")
ITEMS = (1, 2, 4, 8)
# Of what all cores can do, where nothing is lost.
INTENSITIES = {"low": 0.4, "medium": 0.7, "high": 1.1}
CELLS = [f"{level}/{intensity}" for level in SLO_LEVELS for intensity in INTENSITIES]
_CALIBRATION = 8  # runs for each share and number of items
_PAUSE = 0.2  # between two streams, s
_MOST = 2000  # queries of a stream

Row = dict[str, Any]
Sample = tuple[str, int, int, float]  # model, items, places, seconds


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Serve all streams, print what is done, and write the rows; returns them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="two policies, one cell, no file")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each stream")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="one stream each")
    parser.add_argument("--cell", nargs="+", default=CELLS, choices=CELLS, help="SLOs/intensity")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS})")
    given = parser.parse_args(arguments)
    seconds = 0.05 if given.small else given.seconds
    networks = (TINY,) if given.small else NETWORKS
    cells, seeds = (["moderate/medium"], [1]) if given.small else (given.cell, given.seeds)
    policies = ("accordion", "whole-machine") if given.small else tuple(SHARE_POLICIES)
    rows = asyncio.run(_all(networks, policies, cells, seeds, seconds))
    output = given.output or (None if given.small else RESULTS)
    if output is not None:
        head = {
            "what": "python -m benchmarks.accordion_live", "networks": networks, "items": ITEMS,
            "slo": SLO_LEVELS, "intensities": INTENSITIES, "seconds": seconds, "seeds": seeds,
            "cores": len(os.sched_getaffinity(0)),
        }  # fmt: skip
        write_rows(output, head, map(rounded, rows))
    return rows


async def _all(
    networks: Sequence[str],
    policies: Sequence[str],
    cells: Sequence[str],
    seeds: Sequence[int],
    seconds: float,
) -> list[Row]:
    models = {name: TensorModel(name, "1", _built(name)) for name in networks}
    first = _pool(policies[0], models.values(), ())
    samples = [row async for row in _calibrate(first, models.values())]
    rows = []
    for cell in cells:
        figures: dict[str, list[ServingFigures]] = {policy: [] for policy in policies}
        for seed in seeds:
            queries = _stream(_pool(policies[0], models.values(), samples), cell, seconds, seed)
            for policy, found in figures.items():
                pool = _pool(policy, models.values(), samples)
                found.append(figures_of(await _serve(pool, models, queries), pool.profile.places))
                await asyncio.sleep(_PAUSE)
        for policy, found in figures.items():
            rows.append(_row(cell, policy, len(queries), found))
            print("  ".join(f"{k} {v}" for k, v in rounded(rows[-1]).items()), flush=True)
    for model in models.values():
        model.close()
    return rows


def _stream(pool: PoolDispatcher, cell: str, seconds: float, seed: int) -> list[Query]:
    """The queries that all policies see; rate and SLOs are by what was calibrated."""
    level, intensity = cell.split("/")
    profile = pool.profile
    mix = QueryMix(profile.models, ITEMS)
    rate = INTENSITIES[intensity] * profile.places / mean_work(profile, mix)
    count = min(_MOST, max(8, int(rate * seconds)))
    return draw_poisson(mix, slo_rule(profile, SLO_LEVELS[level]), rate, count, seed)


def _row(cell: str, policy: str, count: int, found: Sequence[ServingFigures]) -> Row:
    """Means over streams of so many queries each."""
    level, intensity = cell.split("/")
    kept = ("violations", "refused", "high_violations", "mean", "p50", "p99", "goodput",
            "occupancy", "full")  # fmt: skip
    means = {key: fmean(getattr(each, key) for each in found) for key in kept}
    queries = count * len(found)
    return {"slo": level, "intensity": intensity, "policy": policy, "queries": queries, **means}


async def _serve(
    pool: PoolDispatcher, models: dict[str, TensorModel], queries: Sequence[Query]
) -> list[QueryOutcome]:
    """Send every query at its time, and wait for all."""
    begin = time.monotonic()
    pool.changes.clear()
    tasks = []
    for query in queries:
        await asyncio.sleep(max(0.0, begin + query.arrival - time.monotonic()))
        model = models[query.model.partition("/")[0]]
        tasks.append(asyncio.ensure_future(_ask(pool, model, query, begin)))
    return list(await asyncio.gather(*tasks))


async def _ask(
    pool: PoolDispatcher, model: TensorModel, query: Query, begin: float
) -> QueryOutcome:
    outcome = QueryOutcome(query)
    sent = InferenceQuery(
        _inputs(model, query.items), items=query.items, due=begin + query.deadline,
        priority=query.priority, arrived=begin + query.arrival,
    )  # fmt: skip
    try:
        answer = await pool.compute(model, sent)
    except RefusedError as error:
        outcome.refusal = RefuseQuery(query.number, error.reason, 0.0, 0.0, error.retry_after)
    else:
        outcome.ended = time.monotonic() - begin
        outcome.started = outcome.ended - answer.computed
        outcome.shares.append((outcome.started, 1))
    return outcome


async def _calibrate(pool: PoolDispatcher, models: Iterable[TensorModel]) -> AsyncIterator[Sample]:
    """Samples (name, items, share, seconds) of every share, one query at a time."""
    places = pool.profile.places
    for model in models:
        for items in ITEMS:
            for share in range(1, places + 1):
                cores = frozenset(sorted(os.sched_getaffinity(0))[:share])
                executor = model.instances.make(cores, "single" if items == 1 else "stream")
                inputs = _inputs(model, 1)
                for _ in range(_CALIBRATION):
                    begun = time.monotonic()
                    ends = [time.monotonic() async for _ in executor.amap([inputs] * items)]
                    name = f"{model.name}/{model.version}"
                    yield name, items, share, ends[-1] - begun
                    if items > 1:
                        yield name, 0, share, (ends[-1] - ends[0]) / (items - 1)


@cache
def _inputs(model: TensorModel, items: int) -> dict[str, np.ndarray[Any, Any]]:
    values = model.executor.inputs_that_run(0)
    return {name: np.repeat(value, items, 0) for name, value in values.items()}


def _pool(policy: str, models: Iterable[TensorModel], samples: Iterable[Sample]) -> PoolDispatcher:
    """A pool that has seen nothing but these samples."""
    pool = PoolDispatcher(sorted(os.sched_getaffinity(0)), SHARE_POLICIES[policy], 1 << 30)
    for model in models:
        pool.add(model)
    for name, items, share, seconds in samples:
        pool.profile.times(name).add(items, share, seconds)
    return pool


def _built(name: str) -> Executable:
    """The network for this machine's cores and teams of them, made to be divided."""
    from tvm_hetero.compiler.build import build
    from tvm_hetero.pipeline.divisions import division_here
    from tvm_hetero.pipeline.options import PartitionOptions
    from tvm_hetero.pipeline.partition import partition

    options = PartitionOptions(time_limit=5)
    platform = division_here(options).detect()
    placed = partition(from_onnx(make_model(name)), platform, options).placed
    return build(placed, adaptable=True)


if __name__ == "__main__":
    main()
