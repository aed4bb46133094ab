"""How time and memory grow with the graph: layered graphs to 100,000 tasks, each in its process."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from itertools import product
from pathlib import Path

from benchmarks.scheduling.runner import Row, describe, run, zoo_case

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
ALGORITHMS = ("heft", "auto")
SMALL = (("heft", 200), ("heft", 400), ("auto", 200))


def rows(small: bool, time_limit: float) -> list[Row]:
    """A row for each size and algorithm: seconds and the most memory of a fresh process.

    heft ends when it has a schedule and a bound; auto searches on while there is time.
    """
    cases = SMALL if small else tuple(product(ALGORITHMS, SIZES))
    return [_apart(size, solver, time_limit) for solver, size in cases]


def _apart(size: int, solver: str, time_limit: float) -> Row:
    command = [sys.executable, "-m", "benchmarks.scheduling.scaling"]
    command += [str(size), solver, str(time_limit)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2]
    )
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def _one(size: int, solver: str, time_limit: float) -> Row:
    began = time.perf_counter()
    problem = zoo_case("layered", "sched-nvl", tasks=size)
    made = time.perf_counter() - began
    row, _ = run(problem, solver, time_limit)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return describe(problem, f"layered {size}") | row | {"made_s": made, "peak_bytes": peak}


if __name__ == "__main__":
    print(json.dumps(_one(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))))
