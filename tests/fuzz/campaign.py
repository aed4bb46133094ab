"""All harnesses one after the other, as long as they must hold, with seeds that no run has had.

    python -m tests.fuzz.campaign                  all of them: hours; writes results/fuzz.json
    python -m tests.fuzz.campaign documents signals         these alone
    python -m tests.fuzz.campaign --count 20       so many inputs of each, and nothing is written
    python -m tests.fuzz.campaign --first SEED     the seeds of an earlier run again

Each harness runs in a process of its own, so that a crash of it is a fault as well. What it says
goes to ``build/fuzz/campaign/NAME.log``. A row says from which seed and of which commit it is; the
rows of harnesses that are not asked for stay as they were.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.documents import dated, write_document
from benchmarks.result_rows import read_rows

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "fuzz.json"
LOGS = ROOT / "build" / "fuzz" / "campaign"


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
    Harness("serve_sockets", 5000),
    Harness("cluster_losses", 20),
    Harness("shared_cache", 10),
    Harness("signals", 300),
    Harness("in_bounds", 40),
    Harness("onnx_models", 300, ("--build",)),
    Harness("quantized_models", 100),
    Harness("hostile_models", 20_000),
)


def run_harness(harness: Harness, first: int, count: int) -> dict[str, Any]:
    """Run one to its end; returns its row."""
    command = [sys.executable, "-m", harness.module, "--count", str(count), "--first", str(first)]
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{harness.name.replace(' ', '_')}.log"
    begin = time.monotonic()
    with log.open("wb") as file:
        status = subprocess.run(
            [*command, *harness.options], cwd=ROOT, stdout=file, stderr=file, check=False
        ).returncode
    seconds = time.monotonic() - begin
    said = read_tally(log.read_text(errors="replace"), status)
    outcomes = ", ".join(f"{number} {what}" for what, number in said["outcomes"].items())
    return {"harness": harness.name, "count": said["count"], "first": first,
            "faults": said["faults"], "seconds": seconds, "outcomes": outcomes}  # fmt: skip


def read_tally(log: str, status: int) -> dict[str, Any]:
    """What a harness's last line says; a fault where it did not live to say it."""
    for line in reversed(log.splitlines()):
        if line.startswith('{"harness": '):
            said: dict[str, Any] = json.loads(line)
            # What comes after it, as threads that hang at the end, may be a crash yet.
            said["faults"] += bool(status) and not said["faults"]
            return said
    return {"count": 0, "faults": 1, "outcomes": {f"ended with status {status}": 1}}


def write_row(row: dict[str, Any], path: Path = RESULTS) -> None:
    """Put a row in the place of the last one of its harness."""
    kept = {old["harness"]: old for old in read_rows(path)} | {row["harness"]: dated(row)}
    names = [harness.name for harness in HARNESSES]
    rows = [kept[name] for name in names if name in kept]
    write_document(path, "python -m tests.fuzz.campaign", rows)


def line_of(row: dict[str, Any]) -> str:
    """A harness's line of the table."""
    return (
        f"{row['harness']:<26}{row['count']:>7}{row['faults']:>7}{row['seconds']:>9.0f} s"
        f"  from {row['first']}: {row['outcomes']}"
    )


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
        row = run_harness(harness, asked.first, asked.count or harness.count)
        print(line_of(row), flush=True)
        faults += row["faults"]
        if asked.count is None:
            write_row(row)
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main())
