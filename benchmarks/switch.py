"""How late a stream's requests are when another plan takes over.

    python -m benchmarks.switch                writes results/switch.json (25 s)
    python -m benchmarks.switch --small        a tiny model, few switches (the tests run it)

SqueezeNet on two cores, a device each, built to be adapted. A stream of requests (`Executor.map`)
runs while plans change among contiguous ones: the first blocks on one core, the rest on the other.
Each plan's period is the time that its busiest worker has for a request, by what was watched of its
last requests (`Executor.take_watched`). A switch is as late as the largest gap between two ends of
requests until it is over, less the larger period of the two plans. *Seen* is the same of the
moments at which the thread that asked had the outputs: it wants a core of those that are busy with
the next requests, and waits for it, with or without a switch. So what is seen just as long before
the switch stands beside it (*steady*).
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.documents import write_document
from benchmarks.execution.cases import TINY, make_model, two_devices
from benchmarks.execution.full_stream import FullStream
from tvm_hetero.artifact.executable import Variant
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.watching import WatchedRequests, watched_requests
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.online.chain import chain_of, places_of, schedule_of
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import make_problem
from tvm_hetero.platform import Link, Platform
from tvm_hetero.problem.schedule import Schedule

RESULTS = Path(__file__).resolve().parent / "results" / "switch.json"
# What part of the blocks is on the first core, plan after plan.
CUTS = (0.5, 0.3, 0.6, 0.4, 0.7, 0.5)
_STEADY = 40  # requests between two switches, and that count for a period
_WINDOW = 12  # requests within which a switch is over


@dataclass(frozen=True)
class Row:
    """A switch; seconds, and lateness in periods."""

    before: float
    after: float
    period_before: float
    period_after: float
    taken: float
    gap: float
    lateness: float
    seen: float
    steady: float


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, no file")
    args = parser.parse_args(arguments)
    rows = measured(TINY if args.small else "squeezenet", CUTS[:3] if args.small else CUTS * 3)
    print(f"{'cut':>11}{'periods ms':>14}{'switch ms':>11}{'gap ms':>8}", end="")
    print(f"{'late':>7}{'seen':>7}{'steady':>8}")
    for row in rows:
        print(line_of(row))
    for what in ("lateness", "seen", "steady"):
        values = [getattr(row, what) for row in rows]
        print(f"{what} in periods: median {statistics.median(values):.2f}, worst {max(values):.2f}")
    if not args.small:
        write_document(
            RESULTS, "python -m benchmarks.switch", map(asdict, rows), model="squeezenet"
        )
        print(f"written to {RESULTS}")
    return rows


def line_of(row: Row) -> str:
    """A row of the table."""
    periods = f"{1e3 * row.period_before:.2f} {1e3 * row.period_after:.2f}"
    return (
        f"{row.before:>5.2f} {row.after:>5.2f}{periods:>14}{1e3 * row.taken:>11.2f}"
        f"{1e3 * row.gap:>8.2f}{row.lateness:>7.2f}{row.seen:>7.2f}{row.steady:>8.2f}"
    )


def measured(model: str, cuts: Sequence[float]) -> list[Row]:
    """A row for each change from one cut to the next."""
    options = PartitionOptions(cost_model="analytical")
    prepared = make_problem(from_onnx(make_model(model)), two_cores(), options)
    problem = prepared.problem
    chain, places = chain_of(problem), places_of(problem.platform)
    schedules = {}
    for cut in cuts:
        first = max(1, min(len(chain) - 1, round(cut * len(chain))))
        way = Configuration((first, len(chain)), (0, 1))
        schedules[cut] = schedule_of(chain, way, places)
    module = annotate_devices(prepared.module, problem, schedules[cuts[0]])
    executable = build(module, single=False, adaptable=True)
    factory = PlanFactory(executable, helping=False)
    plans = {cut: factory.variant(schedule) for cut, schedule in schedules.items()}
    rows = []
    with Executor(executable) as executor:
        executor.switch(plans[cuts[0]], schedules[cuts[0]])
        executor.watch(_STEADY)
        with FullStream(executor) as stream:
            stream.wait_for(_STEADY)
            for before, after in itertools.pairwise(cuts):
                rows.append(change(executor, stream, before, after, plans[after], schedules[after]))
    return rows


def two_cores() -> Platform:
    """A device on each; of any speed, since nobody asks what is best there."""
    given = two_devices()
    figures: dict[str, Any] = {"peak_flops": 1e11, "bandwidth": 1e10, "launch": 1e-6}
    devices = tuple(replace(device, **figures) for device in given.devices)
    links = (Link(a, b, 1e10, 1e-6) for a, b in itertools.permutations(given.names, 2))
    return replace(given, devices=devices, links=tuple(links))


def change(
    executor: Executor,
    stream: FullStream,
    before: float,
    after: float,
    plan: Variant,
    schedule: Schedule,
) -> Row:
    """Let another plan take over, and see what that does to the stream."""
    stream.wait_for(_STEADY)
    old = period(executor.take_watched())
    stream.wait_for(_WINDOW)  # what that took of a core delays nobody any more
    ending = executor._plans.current.native  # its last requests end after the switch
    count, start = len(stream.ended), time.monotonic()
    executor.switch(plan, schedule)
    taken, last = time.monotonic() - start, len(stream.ended) + _WINDOW
    stream.wait_for(2 * _WINDOW)
    ends = watched_requests(ending.plan, ending.take_watched()).ended
    ends = np.sort(np.concatenate([ends, executor.take_watched().ended]))
    ends = ends[ends >= stream.ended[count - 1]][: last - count]
    stream.wait_for(_STEADY)
    new = period(executor.take_watched())
    gap = largest_gap(ends.tolist())
    seen = largest_gap(stream.ended[count - 1 : last])
    steady = largest_gap(stream.ended[2 * count - 1 - last : count])
    lateness, seen, steady = ((g - max(old, new)) / max(old, new) for g in (gap, seen, steady))
    return Row(before, after, old, new, taken, gap, lateness, seen, steady)


def period(requests: WatchedRequests) -> float:
    """What the busiest worker has to do for a request, s: the median."""
    seconds = np.nanmedian(requests.ends - requests.starts, axis=0)
    work: dict[int, float] = {}
    for step, took in zip(requests.plan.steps, seconds, strict=True):
        work[step.worker] = work.get(step.worker, 0.0) + float(took)
    return max(work.values())


def largest_gap(ends: Sequence[float]) -> float:
    """The longest time between two that follow one another, s."""
    return max(b - a for a, b in itertools.pairwise(ends))


if __name__ == "__main__":
    main()
