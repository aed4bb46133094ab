"""Whether a time limit is kept: reading, solving, bounds, the judge and writing, large and tight.

    python -m benchmarks.limits                  large and hard problems; writes results/limits.json
    python -m benchmarks.limits --zoo --sample 150 --longest 1
                                                 of all problems of the zoo; results/limits_zoo.json
    python -m benchmarks.limits --small          half a minute of it, nothing is written
    python -m benchmarks.limits --wall           by the wall's clock, on a machine that is ours

Each row is ``tvm-hetero schedule FILE --time-limit S -o FILE`` in a process of its own, from where
the interpreter has started on (of the zoo, where all modules are loaded). *Kept* means within 10 %
or 1 s. Other programs take their part of a machine that is shared, so the clock that the command
looks at is the processor time that it has used (`limit_keeping/processor_clock.c`): `seconds` is
what it would take alone, all threads together; `wall_seconds` what it took beside the `load`. Of a
row that is not kept, `late_in` says who was at work when the time was up, and `late_seen` for how
many seconds somebody was; of all seconds `system_seconds` were the system's. A row that has no
answer says why in `error`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.limit_keeping.timed_call import (
    exec_call,
    fork_call,
    has_processor_clock,
    is_kept,
    start_again,
)
from benchmarks.limit_keeping.zoo_cases import KINDS, all_cases, sample_cases
from benchmarks.result_rows import write_rows
from benchmarks.scheduling.memory import limited
from benchmarks.scheduling.runner import zoo_case
from tvm_hetero.problem import Objective, Problem

__all__ = ["is_kept", "main"]

RESULTS = Path(__file__).with_name("results")
Row = dict[str, Any]
Case = tuple[str, Problem, float]
LIMITS = (1.0, 5.0, 60.0)
# Networks that are large or hard, on platforms of every kind, and what of the weights a device
# holds: None leaves the memories as they are.
NETWORKS = (
    ("inception-v4", "sched-nvl", None),
    ("randwire-c154", "diviml", 0.5),
    ("densenet201", "phone", 0.5),
    ("gpt-96", "h100x8", 0.25),
    ("mixtral-8x22b", "sched-6", None),
    ("kimi-k2", "mixed-64", None),
    ("layered", "gpt3-16node", None),
)
# Random layered graphs of many tasks; a limit of a second is for those that can be read in it.
SIZES = ((5_000, (1.0, 5.0)), (10_000, (5.0, 60.0)), (100_000, (60.0,)))
# Packages that solvers import when they are asked.
_SOLVING = ("solvers", "bounds", "views", "check", "report", "cli")
# What those import when they need it.
_LIBRARIES = ("scipy.optimize", "scipy.sparse", "ortools.sat.python.cp_model")


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, print, and write the results; returns them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a few cases of one second")
    parser.add_argument("--zoo", action="store_true", help="networks x platforms of the zoo")
    parser.add_argument("--sample", type=int, help="so many of the zoo's problems")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--longest", type=float, default=LIMITS[-1], help="leave out longer limits")
    parser.add_argument("--wall", action="store_true", help="go by the wall's clock")
    parser.add_argument(
        "--case", default="", help="only cases with this in their name, not written"
    )
    chosen = parser.parse_args(arguments)
    if not chosen.wall and not has_processor_clock():
        start_again("benchmarks.limits", sys.argv[1:] if arguments is None else arguments)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as cache:
        for row in _measure_zoo(chosen) if chosen.zoo else _measure(chosen, cache):
            rows.append(row)
            print(json.dumps(row), flush=True)
    if not chosen.small and not chosen.case:
        _write("limits_zoo" if chosen.zoo else "limits", rows)
    return rows


def _measure(chosen: argparse.Namespace, cache: str) -> Iterator[Row]:
    """Rows of large and hard problems, each in an interpreter of its own."""
    compiled = _with_bytecode(cache)
    for name, problem, limit in _small() if chosen.small else _cases(chosen.longest):
        if chosen.case in name:
            yield {"case": name, **_size(problem), **exec_call(problem, limit, compiled)}


def _measure_zoo(chosen: argparse.Namespace) -> Iterator[Row]:
    """Rows of the zoo's problems, each in a fork of this process."""
    _load_modules()
    known = all_cases() if chosen.sample is None else sample_cases(chosen.sample, chosen.seed)
    for case in known:
        if chosen.case not in case.name:
            continue
        problem = case.problem()
        for limit in (1.0, 5.0):
            if limit <= chosen.longest:
                yield {"case": case.name, **_size(problem), **fork_call(problem, limit)}


def _size(problem: Problem) -> Row:
    return {"tasks": len(problem.tasks), "devices": len(problem.platform.devices)}


def _load_modules() -> None:
    """Import what a command may import, so that no fork has to."""
    for name in _LIBRARIES:
        importlib.import_module(name)
    for name in _SOLVING:
        package = importlib.import_module(f"tvm_hetero.{name}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)


def _with_bytecode(cache: str) -> dict[str, str]:
    """An environment in which our modules are compiled already, as installed ones are."""
    found = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    found["PYTHONPYCACHEPREFIX"] = cache
    for kind in KINDS:
        exec_call(zoo_case("resnet18", "diviml", Objective(kind)), 1.0, found)
    return found


def _cases(longest: float) -> Iterator[Case]:
    for network, platform, share in NETWORKS:
        for kind in KINDS:
            made = zoo_case(network, platform, Objective(kind))
            name = f"{network} on {platform}, {kind}"
            if share is not None:
                made, name = limited(made, share), f"{name}, {share:.0%} of the weights fit"
            for limit in LIMITS:
                if limit <= longest:
                    yield name, made, limit
    for size, limits in SIZES:
        made = zoo_case("layered", "sched-nvl", tasks=size)
        for name, problem in (
            (f"layered {size}", made),
            (f"layered {size}, 50%", limited(made, 0.5)),
        ):
            for limit in limits:
                if limit <= longest:
                    yield name, problem, limit


def _small() -> Iterator[Case]:
    made = limited(zoo_case("layered", "sched-nvl", tasks=2_000), 0.5)
    yield "layered 2000", made, 1.0
    yield "layered 2000, throughput", replace(made, objective=Objective("throughput")), 1.0


def _write(name: str, rows: Sequence[Row]) -> None:
    head = {
        "what": "benchmarks/limits.py",
        "clock": "processor" if has_processor_clock() else "wall",
        "load": round(os.getloadavg()[0], 1),
        "kept": f"{sum(row['kept'] for row in rows)} of {len(rows)}",
    }
    write_rows(RESULTS / f"{name}.json", head, rows)


if __name__ == "__main__":
    main()
