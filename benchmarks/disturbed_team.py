"""Latency on a team of two cores while another program takes half of one of them.

    python -m benchmarks.disturbed_team            writes results/disturbed_team.json
    python -m benchmarks.disturbed_team --models resnet50 --output FILE
    python -m benchmarks.disturbed_team --small    seconds (the tests run it)

What is left is a core and a half: 75 %. One request after the other, in turns with the program and
without it, sides in turns:

- ``teams``: a plan on each core and both (`docs/teams.md`);
- ``all``: one device of both cores, which computes each parallel loop on both;
- ``ort``: ONNX Runtime with two threads, its defaults else.

`kept` is the share of its pace (requests a second, all of them) that is left to a side, `tail` the
99th percentile of the latencies over their median, with the program. Goals: 70 % and 2.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from benchmarks.disturbed import CORES
from benchmarks.documents import write_document
from benchmarks.execution.arguments import chosen
from benchmarks.execution.cases import make_model, one_device, two_core_teams, with_links
from benchmarks.execution.contenders import PAUSE, build_plan, difference, elements_of, peer_runner
from tvm_hetero.artifact.executable import PARTITION
from tvm_hetero.cli.shared.measure import OnnxRuntime
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.interleave import Runner
from tvm_hetero.problem import Objective
from tvm_hetero.processes.disturbers import disturb

SIDES = ("teams", "all", "ort")
_MODELS = ("squeezenet", "inception_v1", "resnet50")
_ROUNDS, _SECONDS = 6, 1.5
_LAST = 99


@dataclass(frozen=True)
class DisturbedRow:
    """One model and side: seconds of a request, mean in quiet and disturbed, and when disturbed the
    median and the 99th percentile; `difference` from ONNX Runtime, relative.
    """

    model: str
    side: str
    quiet_s: float
    disturbed_s: float
    median_s: float
    last_s: float
    difference: float

    @property
    def kept(self) -> float:
        """The share of its pace that is left."""
        return self.quiet_s / self.disturbed_s

    @property
    def tail(self) -> float:
        """The 99th percentile over the median, disturbed."""
        return self.last_s / self.median_s


def main(arguments: Sequence[str] | None = None) -> list[DisturbedRow]:
    """Measure, print and write; the rows."""
    asked = chosen(
        __doc__, arguments, "disturbed_team.json", models=_MODELS, limit=20.0, rounds=_ROUNDS
    )
    if asked is None:
        return []
    seconds = 0.05 if asked.small else _SECONDS
    rows: list[DisturbedRow] = []
    for name in asked.models:
        for row in measure(name, asked.rounds, seconds, asked.limit, small=asked.small):
            rows.append(row)
            print(_line(row), flush=True)
        if asked.output is not None:
            write_document(asked.output, "python -m benchmarks.disturbed_team", map(asdict, rows),
                           rounds=asked.rounds, seconds=seconds)  # fmt: skip
    return rows


def measure(
    name: str, rounds: int, seconds: float, limit: float, *, small: bool
) -> list[DisturbedRow]:
    """Build one model in both ways and let all sides run, in turns, in quiet and not."""
    model = make_model(name)
    places = {"teams": with_links(two_core_teams(), small=small), "all": one_device(len(CORES))}
    found: dict[tuple[str, bool], list[float]] = {}
    with ExitStack() as stack:
        executors = {}
        for side, place in places.items():
            built = build_plan(model, place, Objective("latency"), limit, small=small)
            executors[side] = stack.enter_context(Executor(built.executable, PARTITION))
        inputs = executors["teams"].random_inputs(0)
        peer = OnnxRuntime(model, len(CORES))
        error = max(difference(executor, inputs, 1, peer) for executor in executors.values())
        runners: dict[str, Runner] = {
            side: lambda count, executor=executor: executor.benchmark(inputs, count, 0)
            for side, executor in executors.items()
        }
        runners["ort"] = peer_runner(peer, elements_of(inputs, 1))
        for _ in range(rounds):
            for disturbed in (False, True):
                with disturb("busy", CORES[1]) if disturbed else ExitStack():
                    for side, run in runners.items():
                        time.sleep(PAUSE)
                        found.setdefault((side, disturbed), []).extend(_for(run, seconds))
    return [_row(name, side, found[side, False], found[side, True], error) for side in SIDES]


def _for(run: Runner, seconds: float) -> list[float]:
    """The latencies of as many runs as fit into a time."""
    run(2)
    taken: list[float] = []
    until = time.perf_counter() + seconds
    while not taken or time.perf_counter() < until:
        taken.extend(run(5))
    return taken


def _row(
    name: str, side: str, quiet: Sequence[float], disturbed: Sequence[float], error: float
) -> DisturbedRow:
    last = statistics.quantiles(disturbed, n=100)[_LAST - 1]
    return DisturbedRow(
        name, side, statistics.fmean(quiet), statistics.fmean(disturbed),
        statistics.median(disturbed), last, error,
    )  # fmt: skip


def _line(row: DisturbedRow) -> str:
    return (
        f"{row.model:<14}{row.side:<6} quiet {1e3 * row.quiet_s:8.3f} ms  disturbed "
        f"{1e3 * row.disturbed_s:8.3f} ms  kept {row.kept:5.0%}  p99/median {row.tail:5.2f}"
        f"  difference {row.difference:.0e}"
    )


if __name__ == "__main__":
    main()
