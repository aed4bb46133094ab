"""All harnesses one after the other, as long as they must hold, with seeds that no run has had.

    python -m tests.fuzz.campaign                  all of them; writes results/fuzz.json
    python -m tests.fuzz.campaign documents signals         these alone
    python -m tests.fuzz.campaign --count 20       so many inputs of each, and nothing is written
    python -m tests.fuzz.campaign --first SEED     the seeds of an earlier run again

It takes an hour of two cores, so it goes in tenths: whoever ends it loses one, and calls it again.
Rows of this very commit are then gone on with, seed after seed; those of others begin anew. Two of
them may run at once, with other harnesses each.

Each tenth runs in a process of its own, so that a crash of it is a fault as well. What it says goes
to ``build/fuzz/campaign/NAME.log``. A row says of which commit it is, from which seed, how many
inputs there were and how many there have to be.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.documents import commit_name, dated, write_document
from benchmarks.result_rows import read_rows

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "fuzz.json"
LOGS = ROOT / "build" / "fuzz" / "campaign"
Row: TypeAlias = dict[str, Any]
_ENDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Harness:
    """A harness, how many inputs it must take without a fault, and what else it is told."""

    name: str
    count: int
    options: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Where it is: of one module there may be several harnesses."""
        return f"tests.fuzz.{self.name.partition(' ')[0]}"


HARNESSES = (
    Harness("documents", 5000),
    Harness("artifacts", 2000),
    Harness("model_folders", 2000),
    Harness("model_folders of encoders", 500, ("--encoders",)),
    Harness("relay_programs", 2000),
    Harness("against_brute_force", 500),
    Harness("teams_against_brute_force", 100),
    Harness("alike_devices", 100),
    Harness("serve_sockets", 5000),
    Harness("serve_lane", 2000),
    Harness("serve_crowd", 2000),
    Harness("decimals", 2000),
    Harness("cluster_losses", 20),
    Harness("shared_cache", 10),
    Harness("signals", 300),
    Harness("odd_options", 300),
    Harness("in_bounds", 40),
    Harness("onnx_models", 300, ("--build",)),
    Harness("operators_alone", 3000),
    Harness("onnx_loops", 2000),
    Harness("onnx_loops that are built", 300, ("--build",)),
    Harness("quantized_models", 100),
    Harness("hostile_models", 20_000),
)


def run_harness(harness: Harness, first: int, count: int) -> Row:
    """Run so many inputs of one to their end; returns its row."""
    command = [sys.executable, "-m", harness.module, "--count", str(count), "--first", str(first)]
    LOGS.mkdir(parents=True, exist_ok=True)
    begin = time.monotonic()
    with (LOGS / f"{harness.name.replace(' ', '_')}.log").open("a+b") as log:
        start = log.seek(0, 2)
        status = subprocess.run(
            [*command, *harness.options], cwd=ROOT, stdout=log, stderr=log, check=False
        ).returncode
        if -status in _ENDED:  # all of us; that is no fault of the harness
            raise KeyboardInterrupt
        log.seek(start)
        said = read_tally(log.read().decode(errors="replace"), status)
    return {"harness": harness.name, "count": said["count"], "wanted": harness.count,
            "first": first, "faults": said["faults"], "seconds": time.monotonic() - begin,
            "outcomes": said["outcomes"]}  # fmt: skip


def read_tally(log: str, status: int) -> Row:
    """What a harness's last line says; a fault where it did not live to say it."""
    for line in reversed(log.splitlines()):
        if line.startswith('{"harness": '):
            said: Row = json.loads(line)
            # What comes after it, as threads that hang at the end, may be a crash yet.
            said["faults"] += bool(status) and not said["faults"]
            return said
    return {"count": 0, "faults": 1, "outcomes": {f"ended with status {status}": 1}}


def joined(row: Row, more: Row) -> Row:
    """One row of two, the second of which has the seeds behind those of the first."""
    both: Counter[str] = Counter(row["outcomes"]) + Counter(more["outcomes"])
    sums = {key: row[key] + more[key] for key in ("count", "faults", "seconds")}
    return {**row, **sums, "outcomes": dict(sorted(both.items()))}


def row_so_far(harness: Harness, path: Path = RESULTS) -> Row | None:
    """The row of a harness that was run on this very commit, all of which is committed."""
    name = commit_name()
    for row in read_rows(path):
        if row["harness"] == harness.name and row["commit"] == name and "+" not in name:
            return row
    return None


def write_row(row: Row, path: Path = RESULTS) -> None:
    """Put a row in the place of the last one of its harness."""
    kept = {old["harness"]: old for old in read_rows(path)} | {row["harness"]: dated(row)}
    names = [harness.name for harness in HARNESSES]
    rows = [kept[name] for name in names if name in kept]
    write_document(path, "python -m tests.fuzz.campaign", rows)


def line_of(row: Row) -> str:
    """A harness's line of the table."""
    outcomes = ", ".join(f"{number} {what}" for what, number in row["outcomes"].items())
    return (
        f"{row['harness']:<26}{row['count']:>7} of {row['wanted']:<6}{row['faults']:>3} faults"
        f"{row['seconds']:>8.0f} s  from {row['first']}: {outcomes}"
    )


def carry_on(harness: Harness, first: int) -> Row:
    """Run a harness until it has had all its inputs, a tenth after the other."""
    row = row_so_far(harness)
    while row is None or row["count"] < harness.count:
        begin, had = (first, 0) if row is None else (row["first"] + row["count"], row["count"])
        count = min(max(harness.count // 10, 1), harness.count - had)
        more = run_harness(harness, begin, count)
        row = more if row is None else joined(row, more)
        write_row(row)
        if more["count"] < count:  # it died, and its seeds have to be looked at first
            break
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    """Run harnesses, print and write what came of them; 1 if there was a fault."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [harness.name for harness in HARNESSES]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--count", type=int, help="of each; nothing is written")
    parser.add_argument("--first", type=int, default=int(time.time()), metavar="SEED")
    asked = parser.parse_args(arguments)
    if unknown := set(asked.names) - set(names):
        parser.error(f"no harness: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    faults = 0
    for harness in HARNESSES:
        if asked.names and harness.name not in asked.names:
            continue
        if asked.count is None:
            row = carry_on(harness, asked.first)
        else:
            row = run_harness(harness, asked.first, asked.count)
        print(line_of(row), flush=True)
        faults += row["faults"]
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
