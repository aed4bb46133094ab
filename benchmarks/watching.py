"""What it costs a stream to watch its steps, and to make a plan for it while it runs.

    python -m benchmarks.watching                writes results/watching.json (a minute)
    python -m benchmarks.watching --small        a tiny model (the tests run it)

Two devices, a core each. Streams of requests follow one another, in turns with `Executor.watch` on
and off; a figure is the median of the rounds, in seconds between two requests in the steady state.
The issue's goal: watching costs less than 1 %. Beside it the time that `PlanFactory` takes for a
plan, the median of contiguous ones, while nothing runs.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from benchmarks.documents import write_document
from benchmarks.execution.argument_types import names_of, output_file
from benchmarks.execution.arguments import RESULTS
from benchmarks.execution.cases import TINY, make_model, two_devices
from benchmarks.execution.contenders import build_plan
from tvm_hetero.artifact.executable import PARTITION, Executable
from tvm_hetero.compiler.plan_factory import PlanFactory
from tvm_hetero.cost_models.links.measure import measure_links
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.online.chain import chain_of, places_of, schedule_of
from tvm_hetero.online.configuration import Configuration
from tvm_hetero.problem import Objective

MODELS = ("squeezenet", "inception_v1", "densenet121")
_ROUNDS, _SECONDS = 15, 0.5
# Requests that are kept, and plans that are made.
_KEPT, _PLANS = 4096, 6


@dataclass(frozen=True)
class Row:
    """One model; seconds. `steps` of its plan, each of which is watched."""

    model: str
    steps: int
    unwatched: float
    watched: float
    cost: float
    plan: float


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, few rounds, no file")
    parser.add_argument("--models", type=names_of(dict.fromkeys((*light_models(), TINY))))
    parser.add_argument("--output", type=output_file)
    args = parser.parse_args(arguments)
    output = args.output or (None if args.small else RESULTS / "watching.json")
    rows: list[Row] = []
    for model in args.models or ((TINY,) if args.small else MODELS):
        rows.append(measure(model, args.small))
        print(_line(rows[-1]), flush=True)
        if output is not None:
            write_document(output, "python -m benchmarks.watching", map(asdict, rows),
                           rounds=_ROUNDS, seconds=_SECONDS)  # fmt: skip
    return rows


def measure(model: str, small: bool = False) -> Row:
    """One model, watched and not, in turns."""
    rounds, seconds = (2, 0.05) if small else (_ROUNDS, _SECONDS)
    built = build_plan(
        make_model(model), measure_links(two_devices()), Objective("throughput"), 5.0,
        small=small, adaptable=True,
    )  # fmt: skip
    found: dict[bool, list[float]] = {False: [], True: []}
    with Executor(built.executable, PARTITION) as executor:
        inputs = executor.inputs_that_run()
        requests = max(5, round(seconds / executor.throughput(inputs, 10)))
        for turn in range(rounds):
            for watched in (False, True) if turn % 2 else (True, False):
                executor.watch(_KEPT if watched else 0)
                found[watched].append(executor.throughput(inputs, requests))
        steps = len(executor.plan.steps)
    off, on = (statistics.median(found[watched]) for watched in (False, True))
    return Row(model, steps, off, on, on / off - 1, plan_seconds(built.executable))


def plan_seconds(executable: Executable) -> float:
    """What it takes to make a plan, the median of some contiguous ones."""
    chain, places = chain_of(executable.problem), places_of(executable.problem.platform)
    factory, taken = PlanFactory(executable), []
    middle = len(chain) // 2
    for cut in range(max(1, middle - _PLANS // 2), min(len(chain), middle + _PLANS // 2)):
        begun = time.perf_counter()
        configuration = Configuration((cut, len(chain)), (0, 1))
        factory.variant(schedule_of(chain, configuration, places))
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def _line(row: Row) -> str:
    return (
        f"{row.model:<14}{row.steps} steps: {1e3 * row.unwatched:.3f} ms a request, watched "
        f"{1e3 * row.watched:.3f} ({100 * row.cost:+.2f} %, goal below 1 %); "
        f"a plan in {1e3 * row.plan:.0f} ms"
    )


if __name__ == "__main__":
    main()
