"""How many schedules a second the C++ search decodes, on one core.

    python benchmarks/decoder.py [--small] [--output FILE]

Random layered graphs of 58 to 5,000 tasks (two more are input and output) on a CPU and two unlike
GPUs, once with copy engines (copies are delays) and once without (copies block both ends). `whole`
decodes random neighbours from the first task to the last; `search` is what annealing really does:
it begins at the first change and stops where a candidate is lost. Thread CPU time, best of the
repeats: other work on the machine slows a repeat down, nothing makes one faster.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tvm_hetero import zoo
from tvm_hetero.platform.host import read_processor
from tvm_hetero.solvers.native.library import NativeSearch
from tvm_hetero.util.documents import write_atomic
from tvm_hetero.views.instance import Instance

RESULTS = Path(__file__).with_name("results") / "decoder.json"
TASKS = (58, 798, 4998)
GOAL = 1e6  # decoded schedules a second on a graph of 60 tasks
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run the benchmark; the rows that it printed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a few decodings of one graph")
    parser.add_argument("--output", type=Path, help=f"default: {RESULTS}, but for --small")
    chosen = parser.parse_args(arguments)
    sizes = TASKS[:1] if chosen.small else TASKS
    parts, repeats = (60_000, 1) if chosen.small else (60_000_000, 5)
    rows = [
        measure(tasks, platform, parts, repeats)
        for tasks in sizes
        for platform in ("sched-nvl", "sched-nvl-serial")
    ]
    show(rows)
    output = chosen.output or (None if chosen.small else RESULTS)
    if output is not None:
        machine = {"processor": read_processor().identity, "cores": os.cpu_count()}
        document = {"benchmark": "decoder", "unit": "schedules a second", "machine": machine}
        write_atomic(output, json.dumps({**document, "rows": rows}, indent=2) + "\n")
    return rows


def measure(tasks: int, platform: str, parts: int, repeats: int) -> Row:
    """Schedules a second, from about so many timed parts a repeat."""
    instance = Instance(zoo.problem("layered", platform, tasks=tasks))
    search = NativeSearch(instance)
    start, order, count = [0] * len(instance), instance.order, max(1, parts // len(instance))

    def whole() -> int:
        return search.decode_many(start, order, count).evaluations

    def annealed() -> int:
        return search.anneal(start, order, evaluations=count).evaluations

    return {
        "tasks": len(instance),
        "tensors read": sum(len(flow.readers) for flow in instance.tensors),
        "platform": platform,
        "whole": best_rate(whole, repeats),
        "search": best_rate(annealed, repeats),
    }


def best_rate(run: Callable[[], int], repeats: int) -> float:
    """The most schedules a second of thread CPU time in any of the repeats."""
    rates = []
    for _ in range(repeats):
        began = time.thread_time()
        count = run()
        rates.append(count / max(1e-9, time.thread_time() - began))
    return max(rates)


def show(rows: Sequence[Row]) -> None:
    """Print the table and whether the goal is met."""
    table = Table("tasks", "tensors read", "platform", "whole /s", "search /s")
    for row in rows:
        rates = [f"{row[column]:,.0f}" for column in ("whole", "search")]
        table.add_row(str(row["tasks"]), str(row["tensors read"]), row["platform"], *rates)
    console = Console()
    console.print(table)
    reached = rows[0]["whole"] / GOAL
    console.print(f"goal: {GOAL:,.0f} whole decodings a second of 60 tasks; {reached:.2f} of it")


if __name__ == "__main__":
    main()
