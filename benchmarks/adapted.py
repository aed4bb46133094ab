"""Requests a second of a stream that is disturbed for a while, by policies that change its plan.

    python -m benchmarks.adapted                  writes results/adapted.json; an hour and a half
    python -m benchmarks.adapted --models squeezenet --platforms unlike --seconds 2 --output FILE
    python -m benchmarks.adapted --small          seconds (the tests run it)

Two devices, a core each: ``equal`` ones, and ``unlike`` ones (x86-64-v2, and native). A stream runs
in quiet, then with a program beside it for so many seconds, then in quiet again:

- ``busy``: it takes half of one core, the first device's or the second one's;
- ``stream``: it takes half of it, too, and spends it on more memory than any cache holds, so that
  the other core is slower as well.

In turns, a stream each:

- ``static``: the artifact's own plan; equal cores run each other's steps (src/executor/state.h);
- ``resolve``, ``odin``, ``lls``, ``shisha``: ``tvm_hetero.load(..., adapt=...)``. Where all cores
  are equal ``resolve`` leaves the artifact's plan alone.

``best`` is the largest rate of configurations that were run under the same disturbance without an
end: those on which policies settled, the static one, their neighbours, and each core alone.

A row has requests/s in quiet, while disturbed, and after; of single requests the median latency and
the 99th percentile over the whole stream, which is always full; the trials and switches.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from benchmarks.documents import write_document
from benchmarks.execution.argument_types import names_of, output_file
from benchmarks.execution.arguments import RESULTS
from benchmarks.execution.cases import TINY, make_model, two_devices
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx, light_models
from tvm_hetero.online.configuration import Configuration, move
from tvm_hetero.online.live.adapter import AdaptationEvent, make_setting
from tvm_hetero.online.live.adaptive_executor import AdaptiveExecutor
from tvm_hetero.online.live.pipeline import LivePipeline
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem import Objective
from tvm_hetero.processes.disturbers import disturb
from tvm_hetero.util.statistics import quantile

MODELS = ("squeezenet", "inception_v1", "resnet50", "densenet121")
PLATFORMS = ("equal", "unlike")
KINDS = ("busy", "stream")
POLICIES = ("static", "resolve", "odin", "lls", "shisha")
DURATIONS = (0.5, 2.0, 10.0)
CORES = (0, 1)
# Seconds in quiet before a disturbance, and after it.
BEFORE, AFTER = 2.0, 2.0


@dataclass(frozen=True)
class Row:
    """One stream (see the head of the file); rates in requests/s, latencies in ms."""

    model: str
    platform: str
    kind: str
    core: int
    seconds: float
    policy: str
    quiet: float
    disturbed: float
    after: float
    best: float
    p50: float
    p99: float
    trials: int
    switches: int


@dataclass(frozen=True)
class Plan:
    """What is measured of one model on one platform."""

    model: str
    platform: str
    executable: Executable


@dataclass
class Requests:
    """When requests were handed over, and when their outputs came; s."""

    begun: list[float]
    ended: list[float]

    def rate(self, begin: float, end: float) -> float:
        """Requests/s between two moments."""
        return sum(begin <= at < end for at in self.ended) / (end - begin)

    def latencies(self) -> list[float]:
        """Of each request, rising, ms."""
        return sorted(1e3 * (b - a) for a, b in zip(self.begun, self.ended, strict=False))


class Stream:
    """A stream through an executor, always full, until the block ends."""

    def __init__(self, executor: Executor) -> None:
        self.requests = Requests([], [])
        self._executor = executor
        self._inputs = executor.inputs_that_run()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Requests:
        self._thread.start()
        return self.requests

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        for _ in self._executor.map(self._feed()):
            self.requests.ended.append(time.monotonic())

    def _feed(self) -> Iterator[Any]:
        while not self._ending.is_set():
            self.requests.begun.append(time.monotonic())
            yield self._inputs


def platform_of(name: str) -> Platform:
    """Two devices, a core each."""
    devices = two_devices(("x86-64-v2",)) if name == "unlike" else two_devices()
    return measure_links(devices)


def make_plan(model: str, platform: str, limit: float) -> Plan:
    """Partition for throughput, to be adapted."""
    options = PartitionOptions(objective=Objective("throughput"), time_limit=limit)
    found = partition(from_onnx(make_model(model)), platform_of(platform), options)
    return Plan(model, platform, build(found.placed, adaptable=True))


def measure_policy(
    plan: Plan, kind: str, core: int, policy: str, seconds: float, around: float = BEFORE
) -> tuple[Row, Configuration | None]:
    """One stream, and on what a policy had settled when the disturbance ended."""
    events: list[AdaptationEvent] = []
    settled = None
    with ExitStack() as stack:
        executor = (
            Executor(plan.executable)
            if policy == "static"
            else AdaptiveExecutor(plan.executable, policy, on_event=events.append)
        )
        requests = stack.enter_context(Stream(stack.enter_context(executor)))
        time.sleep(around)
        onset = time.monotonic()
        with disturb(kind, core, seconds + 60):
            begun = time.monotonic()
            time.sleep(seconds)
            end = time.monotonic()
        if events:
            settled = events[-1].observation.configuration
        time.sleep(around)
        last = time.monotonic()
        if isinstance(executor, AdaptiveExecutor) and executor.failure is not None:
            raise executor.failure
    latencies = requests.latencies()
    row = Row(
        plan.model, plan.platform, kind, core, seconds, policy,
        quiet=requests.rate(onset - around / 2, onset), disturbed=requests.rate(begun, end),
        after=requests.rate(last - around / 2, last), best=0.0,
        p50=quantile(latencies, 0.5), p99=quantile(latencies, 0.99),
        trials=sum(event.phase == "try" for event in events),
        switches=sum(event.switched for event in events),
    )  # fmt: skip
    return row, settled


def find_best(
    plan: Plan, kind: str, core: int, known: Sequence[Configuration], seconds: float
) -> float:
    """The largest rate (1/s) under a disturbance that lasts (see the head of the file)."""
    with ExitStack() as stack:
        executor = stack.enter_context(Executor(plan.executable))
        requests = stack.enter_context(Stream(executor))
        pipeline = LivePipeline(executor, plan.executable)
        static = make_setting(pipeline).static
        tried = list(dict.fromkeys(_around([static, *known], len(pipeline.chain))))
        stack.enter_context(disturb(kind, core, len(tried) * (seconds + 5) + 60))
        rates = []
        for configuration in tried:
            pipeline.switch(configuration)
            executor.await_drained()
            begin = time.monotonic()
            time.sleep(seconds)
            rates.append(requests.rate(begin, time.monotonic()))
        return max(rates)


def _around(known: Sequence[Configuration], blocks: int) -> Iterator[Configuration]:
    for configuration in known:
        yield configuration
        if len(configuration) == 2:
            for count_ in (1, 3):
                for a, b in ((0, 1), (1, 0)):
                    yield move(configuration, a, b, count_)
    yield Configuration((blocks,), (0,))
    yield Configuration((blocks,), (1,))


def measure(
    plan: Plan,
    kind: str,
    core: int,
    durations: Sequence[float],
    policies: Sequence[str],
    around: float,
) -> list[Row]:
    """All policies at all durations, and the best that there is."""
    found: list[Row] = []
    known: list[Configuration] = []
    for seconds in durations:
        for policy in policies:
            row, settled = measure_policy(plan, kind, core, policy, seconds, around)
            found.append(row)
            if settled is not None and seconds == max(durations):
                known.append(settled)
    best = find_best(plan, kind, core, known, min(0.5, around))
    best = max(best, *(row.disturbed for row in found))
    return [replace(row, best=best) for row in found]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    asked = _asked(arguments)
    rows: list[Row] = []
    for model in asked.models:
        for platform in asked.platforms:
            plan = make_plan(model, platform, 1.0 if asked.small else 10.0)
            for kind, core in product(asked.kinds, asked.cores):
                around = 0.6 if asked.small else BEFORE
                rows += measure(plan, kind, core, asked.seconds, asked.policies, around)
                for row in rows[-len(asked.seconds) * len(asked.policies) :]:
                    print(_line(row), flush=True)
                if asked.output is not None:
                    write_document(asked.output, "python -m benchmarks.adapted", map(asdict, rows),
                                   before=BEFORE, after=AFTER)  # fmt: skip
    print(summary(rows))
    return rows


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, two policies, no file")
    parser.add_argument("--models", type=names_of(dict.fromkeys((*light_models(), TINY))))
    parser.add_argument("--platforms", type=names_of(PLATFORMS), default=PLATFORMS)
    parser.add_argument("--kinds", type=names_of(KINDS), default=KINDS)
    parser.add_argument("--policies", type=names_of(POLICIES), default=POLICIES)
    parser.add_argument("--cores", type=_cores, default=CORES)
    parser.add_argument("--seconds", type=_durations, default=DURATIONS)
    parser.add_argument("--output", type=output_file)
    asked = parser.parse_args(arguments)
    asked.models = asked.models or ((TINY,) if asked.small else MODELS)
    if asked.small:
        asked.platforms, asked.kinds, asked.cores = ("unlike",), ("busy",), (1,)
        asked.policies, asked.seconds = ("static", "resolve"), (0.6,)
    elif asked.output is None:
        asked.output = RESULTS / "adapted.json"
    return asked


def _cores(text: str) -> tuple[int, ...]:
    """Positions of cores."""
    found = tuple(int(word) if word.isdecimal() else -1 for word in text.split(","))
    if not set(found) <= set(CORES):
        raise argparse.ArgumentTypeError(f"expected 0, 1 or 0,1, got {text}")
    return found


def _durations(text: str) -> tuple[float, ...]:
    found = tuple(float(word) for word in text.split(","))
    if not all(0 < seconds <= 60 for seconds in found):
        raise argparse.ArgumentTypeError(f"expected seconds from 0 to 60, got {text}")
    return found


def summary(rows: Sequence[Row]) -> str:
    """Rates under disturbances over those of the static plan, in the geometric mean."""
    lines = []
    for platform in dict.fromkeys(row.platform for row in rows):
        for policy in dict.fromkeys(row.policy for row in rows):
            ratios = [
                row.disturbed / base.disturbed
                for row in rows
                for base in rows
                if (row.policy, base.policy) == (policy, "static")
                and row.platform == base.platform == platform
                and (row.model, row.kind, row.core, row.seconds)
                == (base.model, base.kind, base.core, base.seconds)
            ]
            if ratios:
                mean = statistics.geometric_mean(ratios)
                lines.append(f"{platform}: {policy} {mean:.3f} of static while disturbed")
    return "\n".join(lines)


def _line(row: Row) -> str:
    return (
        f"{row.model:<13}{row.platform:<7}{row.kind} on {row.core}  {row.seconds:4.1f} s  "
        f"{row.policy:<8}"
        f"{row.quiet:7.1f} -> {row.disturbed:7.1f} -> {row.after:7.1f} (best {row.best:7.1f})  "
        f"p50 {row.p50:.1f} p99 {row.p99:.1f} ms, {row.trials} trials, {row.switches} switches"
    )


if __name__ == "__main__":
    main()
