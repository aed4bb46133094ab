"""Our reader of documents beside msgspec and cattrs: what each takes, and what each says.

    pip install msgspec cattrs                        # both optional: else "not installed"
    python -m benchmarks.document_readers             # writes results/document_readers.json
    python -m benchmarks.document_readers --small     # 1000 tasks, one sample, no file

Imports and the large problem: a fresh process for every sample, the least of all samples. Of the
problem: CPU time, and by how much the peak of the process's memory (VmHWM) exceeds what it held
before. `json.loads` makes mappings and checks nothing; `parse_document`, of ours, refuses repeated
keys, NaN and infinity; ours makes a whole `Problem`, with units read, names and graph checked; the
libraries make objects of the shape alone (`reading/readers.py`).

The platform, tvm_hetero/platforms/big-little.yaml, is read many times in one process; its YAML is
the same PyYAML for all. The cases (`reading/cases.py`) have one thing wrong each, or odd.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.documents import write_document
from benchmarks.reading.cases import answers
from benchmarks.reading.readers import ABSENT, PARSERS, READERS, installed
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.format import problem_text
from tvm_hetero.util.documents import parse_document
from tvm_hetero.zoo.platforms import PRESETS

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "document_readers.json"
PLATFORM = PRESETS / "big-little.yaml"
TASKS, SMALL_TASKS = 100_000, 1000
LIBRARIES = ("msgspec", "attrs", "cattrs")

_BEFORE = """
import dataclasses, json, re, sys, time, typing
def held(key):
    return int(re.search(key + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1.024e-3
"""
_IMPORT = """
import {before}
memory, begin = held("VmRSS"), time.perf_counter()
import {what}
print(json.dumps({{"seconds": time.perf_counter() - begin, "mb": held("VmRSS") - memory}}))
"""
_READ = """
from benchmarks.reading.readers import PARSERS, READERS
read = PARSERS.get({reader!r}) or READERS[{reader!r}][0]().text
memory, begin = held("VmRSS"), time.process_time()
found = read(open({path!r}, encoding="utf-8").read())
print(json.dumps({{"seconds": time.process_time() - begin, "mb": held("VmHWM") - memory}}))
"""
# What is imported, and what is there before; PyYAML is read by whichever library reads YAML.
_IMPORTS = {
    "yaml": ("json", "yaml"),
    "ours": ("tvm_hetero, yaml", "tvm_hetero.util.fields"),
    "msgspec": ("json", "msgspec"),
    "cattrs": ("json", "cattrs"),
}


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="1000 tasks, one sample, no file")
    small = parser.parse_args(arguments).small
    tasks = SMALL_TASKS if small else TASKS
    rows = []
    for row in measure(tasks, small):
        print(text_of(row), flush=True)
        rows.append(row)
    if not small:
        versions = {name: metadata.version(name) for name in LIBRARIES if installed(name)}
        versions["python"] = platform.python_version()
        what = "python -m benchmarks.document_readers"
        write_document(RESULTS, what, rows, tasks=tasks, libraries=versions)
        print(f"written to {RESULTS}")
    return rows


def measure(tasks: int, small: bool) -> Iterator[dict[str, Any]]:
    """Every row, one after the other."""
    for reader, (before, what) in _IMPORTS.items():
        found = {"says": ABSENT}
        if reader == "ours" or installed(reader):
            found = _sampled(_IMPORT.format(before=before, what=what), 1 if small else 25)
        yield {"measure": "import", "reader": reader} | found
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "problem.json"
        path.write_text(large_problem(tasks), encoding="utf-8")
        size = {"tasks": tasks, "file_mb": path.stat().st_size / 1e6}
        for reader in (*PARSERS, *READERS):
            row = {"measure": "problem", "reader": reader} | size
            if reader in READERS and not installed(READERS[reader][1]):
                yield row | {"says": ABSENT}
                continue
            code = _READ.format(reader=reader, path=str(path))
            yield row | _sampled(code, 1 if small else 5)
    yield from platforms(1 if small else 200)
    yield from answers()


def large_problem(tasks: int) -> str:
    """A chain with a skip from every task, costs on both devices of `PLATFORM`, as our JSON."""
    rng = random.Random(0)
    rows = [
        {
            "id": f"conv{i}", "op": "conv2d", "weight_bytes": rng.randrange(10**6),
            "cost": {"big": rng.uniform(1e-6, 1e-3), "little": rng.uniform(1e-6, 1e-3)},
            "output_bytes": rng.randrange(10**6), "flops": float(rng.randrange(10**9)),
        }
        for i in range(tasks)
    ]  # fmt: skip
    edges = [
        {"src": f"conv{i}", "dst": f"conv{i + step}", "bytes": rows[i]["output_bytes"]}
        for i in range(tasks)
        for step in (1, rng.randrange(2, 50))
        if i + step < tasks
    ]
    document = {
        "format": "tvm-hetero/problem/1", "name": "large",
        "platform": Platform.load(PLATFORM).to_dict(), "tasks": rows, "edges": edges,
        "objective": {"kind": "latency", "batch": 1},
    }  # fmt: skip
    return problem_text(document)


def platforms(count: int) -> Iterator[dict[str, Any]]:
    """Text to mappings, which is the same for all, and mappings to objects by each reader."""
    text = PLATFORM.read_text(encoding="utf-8")
    data = parse_document(text, "platform", as_yaml=True)
    yaml = _least(lambda: parse_document(text, "platform", as_yaml=True), count)
    yield {"measure": "platform", "reader": "yaml", "seconds": yaml}
    for reader, (make, library) in READERS.items():
        row: dict[str, Any] = {"measure": "platform", "reader": reader}
        if not installed(library):
            yield row | {"says": ABSENT}
            continue
        read = make().platform
        yield row | {"seconds": _least(lambda read=read: read(data), count)}  # type: ignore[misc]


def _least(call: Callable[[], Any], count: int) -> float:
    taken = []
    call()  # cattrs makes its code at the first
    for _ in range(count):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return min(taken)


def text_of(row: dict[str, Any]) -> str:
    """A row as a line."""
    head = f"{row['measure']:<9}{row['reader']:<24}"
    if row["measure"] == "case":
        return f"{row['case']}, {row['reader']}: {row['says']}"
    if "says" in row:
        return head + row["says"]
    memory = f"{row['mb']:9.1f} MB" if "mb" in row else ""
    return f"{head}{1e3 * row['seconds']:10.3f} ms{memory}"


def _sampled(code: str, samples: int) -> dict[str, float]:
    """The least of what code prints in fresh processes."""
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    found = []
    for _ in range(samples):
        done = subprocess.run(
            [sys.executable, "-c", _BEFORE + code],
            env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True,
        )  # fmt: skip
        found.append(json.loads(done.stdout))
    return {key: min(row[key] for row in found) for key in found[0]}


if __name__ == "__main__":
    main()
