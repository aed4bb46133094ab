"""Every algorithm on every problem of the zoo: value, bound, gap, seconds, and DiviML's tables.

    python benchmarks/schedule.py                    all suites, writes results/schedule_*.json
    python benchmarks/schedule.py --suite latency    one of them
    python benchmarks/schedule.py --small            a minute of all of them (the tests run it)
    python benchmarks/schedule.py --show             writes build/results/scheduling.md

    python benchmarks/schedule.py --processor        by the processor's clock, beside other programs

Times are wall seconds of one run on this machine, whose load is in the file. Whatever is compared
within a row ran in the same run, with the same time limit. With `--processor` they are the seconds
that a case would take alone, all threads together (`limit_keeping/processor_clock.c`).
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

RESULTS = ROOT / "benchmarks" / "results"
# Seconds that each algorithm may take in each suite.
SUITES = {
    "latency": 3.0,
    "proofs": 10.0,
    "splitting": 60.0,
    "hard": 60.0,
    "throughput": 20.0,
    "batches": 60.0,
    "memory": 60.0,
    "nodes": 5.0,
    "scaling": 60.0,
    "bounds": 4.0,
}
_SMALL_LIMIT = 1.0
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """Run suites and write their results; the rows by suite."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--suite", choices=sorted(SUITES), action="append", help="only this one")
    parser.add_argument("--small", action="store_true", help="small cases, nothing is written")
    parser.add_argument("--time-limit", type=float, help="seconds for each algorithm")
    parser.add_argument("--solver", help="run this one anew, keep the rows of the others (latency)")
    parser.add_argument("--case", help="run the cases with this in their name, keep the others")
    parser.add_argument("--processor", action="store_true", help="go by the processor's clock")
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    chosen = parser.parse_args(arguments)
    if chosen.show:
        from benchmarks.results_page import write_pages

        write_pages()
        return {}
    if chosen.processor:
        _use_processor_clock(sys.argv[1:] if arguments is None else arguments)
    found: dict[str, list[Row]] = {}
    for suite in chosen.suite or SUITES:
        limit = chosen.time_limit or (_SMALL_LIMIT if chosen.small else SUITES[suite])
        began = time.perf_counter()
        module = import_module(f"benchmarks.scheduling.{suite}")
        only = {"algorithms": (chosen.solver,)} if chosen.solver else {}
        only |= {"only": chosen.case} if chosen.case else {}
        found[suite] = module.rows(chosen.small, limit, **only)
        for row in found[suite]:
            print(line(row), flush=True)
        print(f"-- {suite}: {time.perf_counter() - began:.0f} s", flush=True)
        if not chosen.small:
            write(suite, limit, merged(suite, found[suite]) if only else found[suite])
    return found


def _use_processor_clock(arguments: Sequence[str]) -> None:
    """Turn the clock on; where it is not preloaded, become a Python in which it is."""
    from benchmarks.limit_keeping.timed_call import (
        has_processor_clock,
        start_again,
        turn_clock_on,
    )

    if not has_processor_clock():
        start_again("benchmarks.schedule", arguments)
    turn_clock_on()


def merged(suite: str, fresh: list[Row]) -> list[Row]:
    """The rows of the last results with `fresh` ones in their places; new ones at the end."""
    from benchmarks.result_rows import read_rows

    known = read_rows(RESULTS / f"schedule_{suite}.json")
    # A case of one name may come in several batches.
    rows = {(row["case"], row.get("batch"), row["solver"]): row for row in [*known, *fresh]}
    return list(rows.values())


def line(row: Row) -> str:
    """A row as a line of text."""
    name = f"{row['case']:40.40} {row.get('solver', row.get('rung', '')):16}"
    if "error" in row:
        return f"{name} {row['error']:.80}"
    value, seconds = row.get("value", row.get("best", 0.0)), row["seconds"]
    gap = row.get("gap", 1 - row.get("share", 1.0))
    return f"{name} {value:12.6g} bound {row['bound']:12.6g} gap {gap:7.2%} {seconds:7.2f} s"


def write(suite: str, limit: float, rows: list[Row]) -> None:
    """The results of a suite as JSON, whole or not at all."""
    from benchmarks.result_rows import write_rows

    document: dict[str, Any] = {
        "what": f"benchmarks/schedule.py --suite {suite}",
        "load": os.getloadavg()[0],
        "versions": {"ortools": version("ortools"), "python": platform.python_version()},
        "time_limit": limit,
    }
    write_rows(RESULTS / f"schedule_{suite}.json", document, rows)


if __name__ == "__main__":
    main()
