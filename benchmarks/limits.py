"""Whether a time limit is kept: reading, solving, bounds, the judge and writing, large and tight.

    python -m benchmarks.limits              writes results/limits.json
    python -m benchmarks.limits --small      half a minute of it, nothing is written

Each row is ``tvm-hetero schedule FILE --time-limit S -o FILE`` in a process of its own, from where
the interpreter has started on. *Kept* means within 10 % or 1 s. Wall time is what a user waits for,
and other programs take their part of it; processor time and the machine's load beside it say how
much of the wait was ours (`kept_cpu`: what the processor did would have kept the limit). A row that
has no answer says why in `error`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.result_rows import write_rows
from benchmarks.scheduling.memory import limited
from benchmarks.scheduling.runner import zoo_case
from tvm_hetero.problem import Objective, Problem

RESULTS = Path(__file__).with_name("results") / "limits.json"
Row = dict[str, Any]
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
KINDS: tuple[Literal["latency", "throughput"], ...] = ("latency", "throughput")


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, print, and write the results; returns them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--small", action="store_true", help="a few cases of one second")
    parser.add_argument("--longest", type=float, default=LIMITS[-1], help="leave out longer limits")
    parser.add_argument(
        "--case", default="", help="only cases with this in their name, not written"
    )
    chosen = parser.parse_args(arguments)
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        compiled = _with_bytecode(cache)
        for name, problem, limit in _small() if chosen.small else _cases(chosen.longest):
            if chosen.case not in name:
                continue
            row = {"case": name, "tasks": len(problem.tasks), **measure(problem, limit, compiled)}
            rows.append(row)
            print(json.dumps(row), flush=True)
    if not chosen.small and not chosen.case:
        _write(rows)
    return rows


def _with_bytecode(cache: str) -> dict[str, str]:
    """An environment in which our modules are compiled already, as installed ones are."""
    found = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    found["PYTHONPYCACHEPREFIX"] = cache
    for kind in KINDS:
        measure(zoo_case("resnet18", "diviml", Objective(kind)), 1.0, found)
    return found


def measure(problem: Problem, limit: float, environment: dict[str, str] | None = None) -> Row:
    """Wall and processor seconds of one call of the command, and what it answered."""
    with tempfile.TemporaryDirectory() as folder:
        file, answer = Path(folder, "problem.json"), Path(folder, "schedule.json")
        problem.save(file)
        command = [sys.executable, "-m", "benchmarks.limits", str(file), str(limit), str(answer)]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[1],
            env=environment,
        )
        lines = done.stderr.strip().splitlines()
        if done.returncode != 0:
            return {"limit": limit, "error": lines[-1] if lines else "no word"}
        taken = json.loads(done.stdout.splitlines()[-1])
        row = {"limit": limit, **taken, "load": round(os.getloadavg()[0], 1)}
        row |= {"kept": is_kept(taken["seconds"], limit)}
        row |= {"kept_cpu": is_kept(taken["cpu_seconds"], limit)}
        stopped = [line.strip() for line in lines if "stopped:" in line]
        found = json.loads(answer.read_text(encoding="utf-8"))
        return row | {"gap": found["gap"], "by": found["solver"], "why": stopped[-1:]}


def is_kept(seconds: float, limit: float) -> bool:
    """Within 10 % or 1 s."""
    return seconds <= limit + max(1.0, 0.1 * limit)


def _cases(longest: float) -> Iterator[tuple[str, Problem, float]]:
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


def _small() -> Iterator[tuple[str, Problem, float]]:
    made = limited(zoo_case("layered", "sched-nvl", tasks=2_000), 0.5)
    yield "layered 2000", made, 1.0
    yield "layered 2000, throughput", replace(made, objective=Objective("throughput")), 1.0


def _call(file: str, limit: str, answer: str) -> None:
    """The command, in this process, timed."""
    from tvm_hetero.cli.main import app

    began = time.perf_counter()
    status = app(["schedule", file, "--time-limit", limit, "-o", answer], standalone_mode=False)
    if status:
        sys.exit(status)
    taken = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time()}
    print(json.dumps(taken))


def _write(rows: Sequence[Row]) -> None:
    head = {
        "what": "benchmarks/limits.py",
        "cores": len(os.sched_getaffinity(0)),
        "load": round(os.getloadavg()[0], 1),
    }
    write_rows(RESULTS, head, rows)


if __name__ == "__main__":
    if len(sys.argv) == 4 and not sys.argv[1].startswith("-"):
        _call(*sys.argv[1:])
    else:
        main()
