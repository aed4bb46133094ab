"""Branchy networks on two equal cores: what is measured beside what was predicted and the bound.

    python -m benchmarks.latency                   all, writes results/latency.json
    python -m benchmarks.latency --models inception_v1 --batches 1 --output FILE
    python -m benchmarks.latency --small           seconds (the tests run it)
    python -m benchmarks.latency --show            writes docs/performance.md

Inception v1 and v2, a randomly wired network and DenseNet-121, partitioned for the latency of 1 and
of 8 elements over two devices of a core each. Printed for each: the proven bound, the predicted
makespan, the measured one (median of runs in turns with the others), how far that is from the
prediction (goals: median of the errors at most 5 %, the worst at most 10 %, to either side) and
from the bound, the best single device, and ONNX Runtime with two threads.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product

from benchmarks.documents import write_document
from benchmarks.execution.arguments import chosen
from benchmarks.execution.cases import RANDWIRE, two_devices
from benchmarks.execution.compare import Case, Row, compare, line, table
from benchmarks.execution.page import ERROR_MEDIAN, ERROR_WORST
from tvm_hetero.problem import Objective

MODELS = ("inception_v1", "inception_v2", RANDWIRE, "densenet121")
BATCHES = (1, 8)


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Measure, print and write; the rows."""
    asked = chosen(__doc__, arguments, "latency.json", models=MODELS, batches=BATCHES, limit=60.0)
    if asked is None:
        return []
    platform = two_devices()
    rows: list[Row] = []
    print(table([]))
    for name, batch in product(asked.models, asked.batches):
        case = Case(name, Objective("latency", batch=batch), asked.small)
        rows.append(compare(case, platform, asked.limit))
        print(line(rows[-1]), flush=True)
        if asked.output is not None:  # each time: the next case may take long
            write_document(asked.output, "python -m benchmarks.latency", map(asdict, rows),
                           target=dict(platform.devices[0].target or {}),
                           time_limit_s=asked.limit)  # fmt: skip
    print(summary(rows))
    return rows


def summary(rows: Sequence[Row]) -> str:
    """Errors beside their goals."""
    errors = [abs(row.error) for row in rows]
    worst = max(rows, key=lambda row: abs(row.error))
    return (
        f"measured against predicted: median error {100 * statistics.median(errors):.1f} % (goal "
        f"{100 * ERROR_MEDIAN:g}), worst {100 * worst.error:+.1f} % ({worst.model}, batch "
        f"{worst.batch}; goal {100 * ERROR_WORST:g})"
    )


if __name__ == "__main__":
    main()
