"""A core with AVX-512 and one without: what the little one brings, beside the most it could bring.

    python -m benchmarks.big_little                   all, writes results/big_little.json
    python -m benchmarks.big_little --models resnet50 --batches 16 --output FILE
    python -m benchmarks.big_little --small           seconds (the tests run it)
    python -m benchmarks.big_little --show            writes docs/performance.md

Core 0 runs what this CPU can do, core 1 code for x86-64-v2 (vectors of 128 bits, no fused multiply
and add). Each model is partitioned for latency and for throughput, 1 and 16 elements in a batch.
The speed-up is the fast core's time alone over the plan's, both measured, in turns. *Possible* is
the same time over the bound, which no schedule can go below by the costs: the largest speed-up
that there could be. ONNX Runtime runs two threads on the two cores, both of them at full width, so
it is no rival of this platform, just a figure to go by.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

from benchmarks.documents import write_document
from benchmarks.execution.cases import TINY, two_devices
from benchmarks.execution.compare import Case, Row, compare, line, table
from benchmarks.performance import write_page
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Kind, Objective

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "big_little.json"
# Larger networks (--models resnet50) take some minutes for each throughput of 16 elements.
MODELS = ("squeezenet", "inception_v1")
KINDS: tuple[Kind, ...] = ("latency", "throughput")
BATCHES = (1, 16)
LITTLE = "x86-64-v2"


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, few runs, no file")
    parser.add_argument("--models", help="names with commas between")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds for each solve")
    parser.add_argument("--output", type=Path, help=f"JSON file (everything: {RESULTS.name})")
    parser.add_argument("--show", action="store_true", help="write docs/performance.md")
    args = parser.parse_args(arguments)
    if args.show:
        write_page(RESULTS.parent, ROOT / "docs")
        return []
    limit = 1.0 if args.small else args.time_limit
    names = args.models.split(",") if args.models else [TINY] if args.small else MODELS
    batches = [2] if args.small else [int(batch) for batch in args.batches.split(",")]
    everything = (list(names), batches) == (list(MODELS), list(BATCHES))
    output = args.output or (RESULTS if everything else None)
    platform = big_and_little()
    rows: list[Row] = []
    print(table([]))
    for name, kind, batch in product(names, KINDS, batches):
        case = Case(name, Objective(kind, batch=batch), args.small)
        rows.append(compare(case, platform, limit))
        print(line(rows[-1]), flush=True)
        if output is not None:  # each time: the next case may take long
            write_document(output, "python -m benchmarks.big_little", map(asdict, rows),
                           target=dict(platform.devices[0].target or {}), little=LITTLE,
                           time_limit_s=limit)  # fmt: skip
    return rows


def big_and_little() -> Platform:
    """This CPU on the first core, an old one on the second."""
    return two_devices([None, LITTLE])


if __name__ == "__main__":
    main()
