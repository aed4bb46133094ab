"""A core with AVX-512 and one without: what the little one brings, beside the most it could bring.

    python -m benchmarks.big_little                   all, writes results/big_little.json
    python -m benchmarks.big_little --models resnet50 --batches 16 --output FILE
    python -m benchmarks.big_little --small           seconds (the tests run it)
    python -m benchmarks.big_little --show            writes build/results/performance.md

Core 0 runs what this CPU can do, core 1 code for x86-64-v2 (vectors of 128 bits, no fused multiply
and add). Each model is partitioned for latency and for throughput, 1 and 16 elements in a batch.
The speed-up is the fast core's time alone over the plan's, both measured, in turns. *Possible* is
the same time over the bound, which no schedule can go below by the costs: the largest speed-up
that there could be. ONNX Runtime runs two threads on the two cores, both of them at full width, so
it is no rival of this platform, just a figure to go by.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import product

from benchmarks.documents import write_document
from benchmarks.execution.arguments import chosen
from benchmarks.execution.cases import two_devices
from benchmarks.execution.compare import Case, Row, compare, line, table
from tvm_hetero.platform import Platform
from tvm_hetero.problem import Kind, Objective

# Larger networks (--models resnet50) take some minutes for each throughput of 16 elements.
MODELS = ("squeezenet", "inception_v1")
KINDS: tuple[Kind, ...] = ("latency", "throughput")
BATCHES = (1, 16)
LITTLE = "x86-64-v2"


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    asked = chosen(
        __doc__, arguments, "big_little.json", models=MODELS, batches=BATCHES, limit=10.0
    )
    if asked is None:
        return []
    platform = big_and_little()
    rows: list[Row] = []
    print(table([]))
    for name, kind, batch in product(asked.models, KINDS, asked.batches):
        case = Case(name, Objective(kind, batch=batch), asked.small)
        rows.append(compare(case, platform, asked.limit))
        print(line(rows[-1]), flush=True)
        if asked.output is not None:  # each time: the next case may take long
            write_document(asked.output, "python -m benchmarks.big_little", map(asdict, rows),
                           target=dict(platform.devices[0].target or {}), little=LITTLE,
                           time_limit_s=asked.limit)  # fmt: skip
    return rows


def big_and_little() -> Platform:
    """This CPU on the first core, an old one on the second."""
    return two_devices([None, LITTLE])


if __name__ == "__main__":
    main()
