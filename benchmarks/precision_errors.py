"""Whether ``auto`` keeps its accuracy: networks on hundreds of inputs that no one has seen.

    python -m benchmarks.precision_errors                        all, results/precision_errors.json
    python -m benchmarks.precision_errors --models yolov8n       this one's row of the file alone
    python -m benchmarks.precision_errors --small                squeezenet, few inputs, no file

Each network of `benchmarks.precision` is partitioned in float32, in bfloat16 and by ``auto`` at
1e-2 and runs on 35 fresh inputs of each of the six kinds that a check draws
(`tvm_hetero.pipeline.precision.input_kinds`), and on eleven of each of three kinds that no check
draws: shifted, boxes, and strokes on white. Of the former ``auto`` promises something, of the
latter nothing. Kernels' seconds are sums over tasks, each measured by itself; no network is timed.
With ``--folder`` what was made is kept, and taken from there.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.documents import dated, write_document
from benchmarks.execution.networks import NETWORKS
from benchmarks.execution.precision_networks import (
    PrecisionNetwork,
    is_made,
    make_precision_network,
    read_note,
)
from benchmarks.models import SMALL, model_parser
from benchmarks.result_rows import read_rows
from tvm_hetero.artifact.read import read_precision
from tvm_hetero.pipeline.options import ACCURACY
from tvm_hetero.problem.precision_promise import AUTO, BFLOAT16, FLOAT32

RESULTS = Path(__file__).resolve().parent / "results" / "precision_errors.json"
EACH, _SMALL_EACH = 35, 2


@dataclass(frozen=True)
class ErrorRow:
    """A network, what is known of its errors, and its kernels' seconds by precision."""

    model: str
    network: PrecisionNetwork
    kernels: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """The row of the file; its commit is that which made the network."""
        return dated({"model": self.model}) | asdict(self.network) | {"kernels": self.kernels}


def main(arguments: Sequence[str] | None = None) -> list[ErrorRow]:
    """Make networks, print and write; the rows."""
    args = _arguments(arguments)
    rows = []
    print(_HEAD)
    with ExitStack() as stack:
        root = args.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in args.models or (SMALL if args.small else NETWORKS):
            if not is_made(root / name):
                each = _SMALL_EACH if args.small else EACH
                make_precision_network(name, ACCURACY, root / name, each)
            rows.append(_row(name, root / name))
            print(_line(rows[-1]), flush=True)
            if not args.small:
                _write(rows[-1])
    print(summary(rows))
    return rows


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = model_parser(__doc__, NETWORKS)
    parser.add_argument("--folder", type=Path, help="where networks are kept (default: nowhere)")
    return parser.parse_args(arguments)


def _row(name: str, folder: Path) -> ErrorRow:
    """What a folder says of a network."""
    kernels = {}
    for precision in (BFLOAT16, AUTO):
        promise = read_precision(folder / f"{precision}.hetero")
        if promise is not None and promise.seconds is not None:
            kernels[precision] = promise.seconds
        if promise is not None and promise.seconds_float32 is not None:
            kernels[FLOAT32] = promise.seconds_float32
    return ErrorRow(name, read_note(folder), kernels)


def _write(row: ErrorRow) -> None:
    """Put a row into the file, in place of the model's last one."""
    rows = {each["model"]: each for each in read_rows(RESULTS)} if RESULTS.exists() else {}
    rows[row.model] = row.to_dict()
    found = [rows[name] for name in NETWORKS if name in rows]
    write_document(RESULTS, "python -m benchmarks.precision_errors", found, accuracy=ACCURACY)


_HEAD = (
    f"{'model':<14}{'tasks':>6}{'bf16':>6}{'auto':>6}{'f32 ms':>9}{'bf16 ms':>9}{'auto ms':>9}"
    f"{'of':>5}{'bf16 >':>7}{'auto >':>7}{'bf16':>9}{'auto':>9}{'1/1000':>9}"
    f"{'strange':>8}{'bf16 >':>7}{'auto >':>7}{'auto':>9}"
)


def _line(row: ErrorRow) -> str:
    found = row.network
    counts = f"{found.tasks:>6}" + "".join(f"{found.narrow[key]:>6}" for key in (BFLOAT16, AUTO))
    seconds = [row.kernels.get(key) for key in (FLOAT32, BFLOAT16, AUTO)]
    times = "".join(f"{'-' if s is None else f'{1e3 * s:.2f}':>9}" for s in seconds)
    above = "".join(f"{found.exceeded[key]:>7}" for key in (BFLOAT16, AUTO))
    errors = [found.errors[BFLOAT16], found.errors[AUTO], found.rare or 0.0]
    strange = "".join(f"{found.strange_exceeded.get(key, 0):>7}" for key in (BFLOAT16, AUTO))
    return (
        f"{row.model:<14}{counts}{times}{found.fresh:>5}{above}"
        f"{''.join(f'{error:>9.1e}' for error in errors)}"
        f"{found.strange:>8}{strange}{found.strange_errors[AUTO]:>9.1e}"
    )


def summary(rows: Sequence[ErrorRow]) -> str:
    """How often the accuracy was exceeded, by all tasks in bfloat16 and by ``auto``."""
    fresh = sum(row.network.fresh for row in rows)
    parts = [
        f"{key} on {sum(row.network.exceeded[key] for row in rows)}" for key in (BFLOAT16, AUTO)
    ]
    return f"above the accuracy: {', '.join(parts)} of {fresh} inputs"


if __name__ == "__main__":
    main()
