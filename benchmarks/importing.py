"""What it costs that an ONNX file is read in a child, which may crash or ask for too much.

    python -m benchmarks.importing                 writes results/importing.json
    python -m benchmarks.importing --small         one model (the tests run it)

A model is imported as users do, where a child checks and converts it and its answer is read back;
and in one go in a child that is there already, where nothing is forked, packed and read. In turns,
the least of `ROUNDS` of each: `child` less `inline` is the price of the child.
"""

from __future__ import annotations

import argparse
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import onnx

from benchmarks.conforming.rows import ROOT
from benchmarks.documents import write_document
from benchmarks.execution.cases import make_model
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.processes.forked_call import call_in_fork
from tvm_hetero.processes.forked_child import ChildLimits, Section

RESULTS = ROOT / "benchmarks" / "results" / "importing.json"
MODELS = ("squeezenet", "inception_v1", "densenet121", "resnet50", "vgg19")
ROUNDS = 5
_LIMITS = ChildLimits(memory=8 << 30, step_seconds=60.0, total_seconds=120.0, answer=1 << 20)


@dataclass(frozen=True)
class ImportRow:
    """One model: its nodes, the bytes of its file, and seconds of an import, in a child or not."""

    model: str
    nodes: int
    file_bytes: int
    child_s: float
    inline_s: float

    @property
    def price_s(self) -> float:
        """What the child costs, s."""
        return self.child_s - self.inline_s


def main(arguments: Sequence[str] | None = None) -> list[ImportRow]:
    """Measure, print and write; returns the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="one model, no file")
    small = parser.parse_args(arguments).small
    print(f"{'model':<14}{'nodes':>6}{'MB':>8}{'child ms':>10}{'inline ms':>11}{'price ms':>10}")
    rows = []
    for name in MODELS[:1] if small else MODELS:
        rows.append(measured(name, 1 if small else ROUNDS))
        print(line_of(rows[-1]), flush=True)
    if not small:
        write_document(RESULTS, "python -m benchmarks.importing", map(asdict, rows))
    return rows


def measured(name: str, rounds: int) -> ImportRow:
    """A model imported both ways, in turns."""
    model = make_model(name)
    ways: dict[str, Callable[[], float]] = {
        "child": partial(_seconds, model), "inline": partial(_seconds_in_a_child, model),
    }  # fmt: skip
    least = {way: float("inf") for way in ways}
    for _ in range(rounds):
        for way, measure in ways.items():
            least[way] = min(least[way], measure())
    return ImportRow(name, len(model.graph.node), model.ByteSize(), least["child"], least["inline"])


def _seconds(model: onnx.ModelProto) -> float:
    start = time.perf_counter()
    from_onnx(model)
    return time.perf_counter() - start


def _seconds_in_a_child(model: onnx.ModelProto) -> float:
    """What an import takes where this process is a child already, and answers with that only."""

    def work() -> list[Section]:
        return [struct.pack("d", _seconds(model))]

    (section,) = call_in_fork(work, _LIMITS)
    return float(struct.unpack("d", section)[0])


def line_of(row: ImportRow) -> str:
    """A model's line of the table."""
    times = (row.child_s, row.inline_s, row.price_s)
    return (
        f"{row.model:<14}{row.nodes:>6}{row.file_bytes / 1e6:>8.1f}"
        f"{1e3 * times[0]:>10.1f}{1e3 * times[1]:>11.1f}{1e3 * times[2]:>10.1f}"
    )


if __name__ == "__main__":
    main()
