"""Requests a second of a stream that is disturbed for a while, by policies that change its plan.

    python -m benchmarks.adapted                  writes results/adapted.json; an hour and a half
    python -m benchmarks.adapted --quick          what results/adapted.json has now; ten minutes
    python -m benchmarks.adapted --models squeezenet --platforms unlike --seconds 2 --output FILE
    python -m benchmarks.adapted --models squeezenet --cores 1 --seconds 2 --no-best --append
                                                  a row at a time: the file's other rows stay
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

``best`` is the rate of the best configuration that was found under the same disturbance without an
end, and of the artifact's plan (`tvm_hetero.online.comparison.live_best`).

A row has requests/s in quiet, while disturbed, and after; of single requests the median latency and
the 99th percentile over the whole stream, which is always full; the trials and switches; the cores
that others had (`execution.disturbed_stream`). A stream that others disturb, too, is measured
again, up to ``--tries`` times, and the calmest counts.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.documents import dated, write_document
from benchmarks.execution.adapted_rows import AdaptedRow, merged, summary
from benchmarks.execution.argument_types import count, names_of, output_file
from benchmarks.execution.arguments import RESULTS
from benchmarks.execution.cases import TINY, make_model, two_devices, with_links
from benchmarks.execution.disturbed_stream import DisturbedStream, run_disturbed
from benchmarks.execution.unrest import ATTEMPTS, calmest
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx, light_models
from tvm_hetero.online.comparison.live import LiveTrial
from tvm_hetero.online.comparison.live_best import measure_best
from tvm_hetero.online.comparison.spans import DisturbedSpans
from tvm_hetero.online.live.adapter import AdaptationEvent
from tvm_hetero.online.live.adaptive_executor import AdaptiveExecutor
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem import Objective
from tvm_hetero.util.statistics import quantile

MODELS = ("squeezenet", "inception_v1", "resnet50", "densenet121")
PLATFORMS = ("equal", "unlike")
KINDS = ("busy", "stream")
POLICIES = ("static", "resolve", "odin", "lls", "shisha")
DURATIONS = (0.5, 2.0, 10.0)
CORES = (0, 1)
# Seconds in quiet before a disturbance, and after it.
BEFORE, AFTER = 2.0, 2.0


class Asked(argparse.Namespace):
    """What is measured, and how."""

    models: Sequence[str]
    platforms: Sequence[str]
    kinds: Sequence[str]
    policies: Sequence[str]
    cores: Sequence[int]
    seconds: Sequence[float]
    output: Path | None
    small: bool
    quick: bool
    append: bool
    no_best: bool
    tries: int
    around: float = BEFORE


@dataclass(frozen=True)
class Plan:
    """What is measured of one model on one platform."""

    model: str
    platform: str
    executable: Executable


def platform_of(name: str, *, small: bool = False) -> Platform:
    """Two devices, a core each."""
    devices = two_devices(("x86-64-v2",)) if name == "unlike" else two_devices()
    return with_links(devices, small=small)


def make_plan(model: str, platform: str, limit: float, *, small: bool = False) -> Plan:
    """Partition for throughput, to be adapted."""
    options = PartitionOptions(objective=Objective("throughput"), time_limit=limit)
    found = partition(from_onnx(make_model(model)), platform_of(platform, small=small), options)
    return Plan(model, platform, build(found.placed, adaptable=True))


def measure_policy(
    plan: Plan, kind: str, core: int, policy: str, seconds: float, asked: Asked
) -> AdaptedRow:
    """One stream, or the calmest of some."""
    (stream, events), _ = calmest(
        lambda: _stream(plan, kind, core, policy, seconds, asked.around),
        lambda found: found[0].unrest,
        asked.tries,
    )
    return AdaptedRow(
        plan.model, plan.platform, kind, core, seconds, policy,
        quiet=stream.quiet, disturbed=stream.disturbed, after=stream.after, best=0.0,
        p50=1e3 * quantile(stream.latencies, 0.5), p99=1e3 * quantile(stream.latencies, 0.99),
        trials=sum(event.phase == "try" for event in events),
        switches=sum(event.switched for event in events),
        others=stream.others,
    )  # fmt: skip


def _stream(
    plan: Plan, kind: str, core: int, policy: str, seconds: float, around: float
) -> tuple[DisturbedStream, list[AdaptationEvent]]:
    events: list[AdaptationEvent] = []
    executor = (
        Executor(plan.executable)
        if policy == "static"
        else AdaptiveExecutor(plan.executable, policy, on_event=events.append)
    )
    with executor:
        found = run_disturbed(executor, kind, core, seconds, around)
        if isinstance(executor, AdaptiveExecutor) and executor.failure is not None:
            raise executor.failure
    return found, events


def find_best(plan: Plan, kind: str, core: int) -> float:
    """The largest rate (1/s) under a disturbance that lasts (see the head of the file)."""
    with Executor(plan.executable) as executor:
        inputs = executor.inputs_that_run()
    spans = DisturbedSpans(2, ((1, 2),))  # it is asked for rates alone: nothing runs through them
    found = measure_best(LiveTrial(plan.executable, inputs, kind, core, spans))
    assert found.disturbed is not None
    return found.disturbed


def measure(plan: Plan, kind: str, core: int, asked: Asked) -> list[AdaptedRow]:
    """All policies at all durations, and the best that there is."""
    found = [
        measure_policy(plan, kind, core, policy, seconds, asked)
        for seconds in asked.seconds
        for policy in asked.policies
    ]
    best = 0.0 if asked.no_best else find_best(plan, kind, core)
    return [replace(row, best=best) for row in found]


def main(arguments: Sequence[str] | None = None) -> list[AdaptedRow]:
    """Measure, print and write; the rows."""
    asked = _asked(arguments)
    rows: list[AdaptedRow] = []
    written: list[Mapping[str, Any]] = _kept(asked)
    for model, platform in product(asked.models, asked.platforms):
        plan = make_plan(model, platform, 1.0 if asked.small else 10.0, small=asked.small)
        for kind, core in product(asked.kinds, asked.cores):
            found = measure(plan, kind, core, asked)
            rows += found
            print(*(row.text() for row in found), sep="\n", flush=True)
            written = merged(written, [dated(asdict(row)) for row in found])
            if asked.output is not None:
                what = f"python -m benchmarks.adapted{' --quick' if asked.quick else ''}"
                write_document(asked.output, what, written, before=BEFORE, after=AFTER)
    print(summary(rows))
    return rows


def _kept(asked: Asked) -> list[Mapping[str, Any]]:
    """Rows of the file that stay, those of its head's commit and day that name none."""
    if not asked.append or asked.output is None or not asked.output.exists():
        return []
    document = json.loads(asked.output.read_text(encoding="utf-8"))
    made = {"commit": document["commit"], "date": document["date"]}
    return [{**row, **{key: row.get(key, made[key]) for key in made}} for row in document["rows"]]


def _asked(arguments: Sequence[str] | None) -> Asked:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, two policies, no file")
    parser.add_argument("--quick", action="store_true", help="two models, three policies, busy")
    parser.add_argument("--models", type=names_of(dict.fromkeys((*light_models(), TINY))))
    parser.add_argument("--platforms", type=names_of(PLATFORMS), default=PLATFORMS)
    parser.add_argument("--kinds", type=names_of(KINDS), default=KINDS)
    parser.add_argument("--policies", type=names_of(POLICIES), default=POLICIES)
    parser.add_argument("--cores", type=_cores, default=CORES)
    parser.add_argument("--seconds", type=_durations, default=DURATIONS)
    parser.add_argument("--output", type=output_file)
    parser.add_argument("--append", action="store_true", help="keep the file's other rows")
    parser.add_argument("--no-best", action="store_true", help="do not look for the best (0)")
    parser.add_argument("--tries", type=count, default=ATTEMPTS, help="streams until one is calm")
    asked = parser.parse_args(arguments, namespace=Asked())
    if asked.quick:
        asked.models, asked.kinds = MODELS[:2], KINDS[:1]
        asked.policies, asked.seconds = POLICIES[:3], DURATIONS[1:]
    asked.models = asked.models or ((TINY,) if asked.small else MODELS)
    if asked.small:
        asked.platforms, asked.kinds, asked.cores = ("unlike",), ("busy",), (1,)
        asked.policies, asked.seconds = ("static", "resolve"), (0.6,)
        asked.around, asked.tries = 0.6, 1
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


if __name__ == "__main__":
    main()
