"""The workloads of Tarnawski et al. (NeurIPS 2020): value and bound beside the best that is known.

    python -m benchmarks.msr                     all sixteen, 60 s each; writes results/msr.json
    python -m benchmarks.msr --only throughput   those whose names match; the others keep their rows
    python -m benchmarks.msr --processor         by the processor's clock, beside other programs
    python -m benchmarks.msr --small             the smallest one, some seconds; nothing is written

Each problem is solved by ``tvm-hetero schedule FILE --time-limit S --json`` in a process of its
own: what a user gets, from the moment the command is called. With `--processor` the seconds are
those that it would take alone (`limit_keeping/processor_clock.c`). Best known values are those that
anybody has published or found (ms): of their own programs with Gurobi, and of earlier runs here.

The problems are files (problem/1) that are not part of this repository; `--folder` says where.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents import write_document
from benchmarks.execution.argument_types import duration, pattern
from benchmarks.limit_keeping.timed_call import preload
from benchmarks.parts import percent, seconds, table
from benchmarks.result_rows import read_rows

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "msr.json"
FOLDER = ROOT.parent / "shared" / "cases" / "msr"
LIMIT, SMALL_LIMIT = 60.0, 5.0
# Best known values, ms.
KNOWN = {
    "throughput.Layer.bert24": 17.715,
    "throughput.Layer.gnmt": 31.687,
    "throughput.Layer.resnet50": 33.350,
    "throughput.Layer.inceptionv3": 51.354,
    "throughput.Operator.bert_l-3": 21.908,
    "throughput.Operator.bert_l-6": 28.332,
    "throughput.Operator.bert_l-12": 130.04,
    "throughput.Operator.resnet50": 124.349,
    "latency.Layer.bert24": 100.22,
    "latency.Layer.gnmt": 219.3,
    "latency.Layer.resnet50": 1132.9,
    "latency.Layer.inceptionv3": 1199.7,
    "latency.Operator.bert_l-3": 401.2,
    "latency.Operator.bert_l-6": 436.1,
    "latency.Operator.bert_l-12": 729.6,
    "latency.Operator.resnet50": 649.0,
}
SMALLEST = "throughput.Layer.bert24"
_BY_PROCESSOR = (
    "import sys; from benchmarks.limit_keeping.timed_call import turn_clock_on; turn_clock_on(); "
    "from tvm_hetero.__main__ import main; sys.exit(main())"
)
Row = dict[str, Any]


class MissingProblemError(SystemExit):
    """A problem's file is not there; says where it was looked for."""


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Run, print, and write the results; the rows that were made."""
    given = ask(__doc__, arguments, tuple(KNOWN), (SMALLEST,), clocks=True)
    limit = min(SMALL_LIMIT, given.time_limit) if given.small else given.time_limit
    files = {name: problem_file(given.folder, name) for name in given.chosen}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environment = preload(Path(folder)) if given.processor else None
        for name, file in files.items():
            rows.append(measure(name, file, limit, environment))
            print(json.dumps(rows[-1]), flush=True)
            if not given.small:
                _write(rows)
    print(show(rows))
    return rows


def ask(
    text: str | None,
    arguments: Sequence[str] | None,
    names: Sequence[str],
    quick: Sequence[str],
    *,
    clocks: bool = False,
) -> argparse.Namespace:
    """What a benchmark of these problems is told on the command line.

    Parameters
    ----------
    text : the benchmark's own; names : of the problems, the `quick` ones for ``--small``;
    clocks : whether there is a choice of them.

    Returns
    -------
    ``chosen`` (names), ``small``, ``time_limit`` (s) and ``folder``; ``processor`` with `clocks`.
    """
    parser = argparse.ArgumentParser(description=(text or "").splitlines()[0])
    matching = "problems whose names have a match"
    parser.add_argument("--only", type=pattern, default="", metavar="REGEX", help=matching)
    parser.add_argument("--small", action="store_true", help="quick ones, nothing is written")
    parser.add_argument("--time-limit", type=duration, default=LIMIT, metavar="S", help="of each")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the problems are")
    if clocks:
        parser.add_argument("--processor", action="store_true", help="go by the processor's clock")
    given = parser.parse_args(arguments)
    given.chosen = list(filter(given.only.search, quick if given.small else names))
    if not given.chosen:
        parser.error(
            f"--only {given.only.pattern}: no name has a match; names are {', '.join(names)}"
        )
    return given


def problem_file(folder: Path, name: str) -> Path:
    """The file of a problem.

    Raises
    ------
    MissingProblemError
        If it is not there.
    """
    file = folder / f"{name}_inference.problem.json"
    if not file.is_file():
        raise MissingProblemError(
            f"no file {file}: the problems are not part of this repository; say with --folder "
            f"where files like {file.name} are"
        )
    return file


def measure(
    name: str, file: Path, limit: float, environment: Mapping[str, str] | None = None
) -> Row:
    """One call of the command: value, bound and gap beside the best known value.

    With an `environment`, which has the processor's clock, that is what it goes by.
    """
    how = ["-m", "tvm_hetero"] if environment is None else ["-c", _BY_PROCESSOR]
    command = [sys.executable, *how, "schedule", str(file)]
    began = _seconds(environment)
    done = subprocess.run(
        [*command, "--time-limit", str(limit), "--json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=environment,
    )
    taken = _seconds(environment) - began
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    # Whole microseconds: results keep four figures of a float, and a thousandth counts here.
    row: Row = {"problem": name, "limit": limit, "known_us": round(1e3 * KNOWN[name])}
    if environment is not None:
        row["clock"] = "processor"
    if done.returncode != 0:
        return row | {"error": lines[-1] if lines else "no word", "seconds": taken}
    answer = json.loads(done.stdout)
    value = answer["objective"]["value"]
    stopped = [line.removeprefix("stopped: ") for line in lines if line.startswith("stopped:")]
    return row | {
        "value_us": round(1e6 * value),
        "above_known": 1e3 * value / KNOWN[name] - 1,
        "bound_us": round(1e6 * answer["lower_bound"]),
        "gap": answer["gap"],
        "seconds": taken,
        "solver": answer["solver"],
        "status": answer["status"],
        "why": stopped[-1] if stopped else "",
    }


def _seconds(environment: Mapping[str, str] | None) -> float:
    """The wall's clock, or the processor time of children that have ended."""
    if environment is None:
        return time.perf_counter()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(rows: Sequence[Row]) -> str:
    """The rows as a table."""
    head = ["problem", "best known, ms", "ours, ms", "above", "bound, ms", "gap", "s", "solver"]
    return table(head, [_cells(row) for row in rows])


def _cells(row: Row) -> list[Any]:
    first = [row["problem"], f"{row['known_us'] / 1e3:.3f}"]
    if "error" in row:
        return [*first, row["error"], "", "", "", seconds(row["seconds"]), ""]
    return [
        *first,
        f"{row['value_us'] / 1e3:.3f}",
        f"{100 * row['above_known']:+.2f} %",
        f"{row['bound_us'] / 1e3:.3f}",
        percent(row["gap"]),
        seconds(row["seconds"]),
        row["solver"],
    ]


def _write(rows: Sequence[Row]) -> None:
    """These rows, and those of other problems from before, in the order of `KNOWN`."""
    merged = {row["problem"]: row for row in [*read_rows(RESULTS), *rows]}
    ordered = [merged[name] for name in KNOWN if name in merged]
    write_document(RESULTS, "MSR's workloads: values and bounds beside the best known", ordered)


if __name__ == "__main__":
    main()
