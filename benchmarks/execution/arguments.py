"""What benchmarks of plans are told on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.execution.argument_types import (
    count,
    counts,
    duration,
    names_of,
    output_file,
)
from benchmarks.execution.cases import RANDWIRE, TINY
from benchmarks.results_page import write_pages
from tvm_hetero.frontends.onnx import light_models

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results"


@dataclass(frozen=True)
class Chosen:
    """What to measure.

    Attributes
    ----------
    models, batches : in the order of the table; limit : seconds for each solve.
    small : a tiny model, few runs; output : where rows are written, None: nowhere.
    rounds : of turns, where a benchmark has them.
    """

    models: tuple[str, ...]
    batches: tuple[int, ...]
    limit: float
    small: bool
    output: Path | None
    rounds: int


def chosen(
    text: str,
    arguments: Sequence[str] | None,
    result: str,
    *,
    models: Sequence[str],
    limit: float,
    batches: Sequence[int] = (),
    rounds: int = 0,
) -> Chosen | None:
    """Read the command line; None after ``--show``, which writes build/results/performance.md.

    Parameters
    ----------
    text : the benchmark's own, whose first paragraph is the help's.
    result : the name of the file that everything is written to.
    models, limit, batches, rounds : what is measured unless told otherwise; a benchmark that names
        no batches or rounds has no such option.
    """
    parser = argparse.ArgumentParser(description=text.split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="a tiny model, few runs, no file")
    known = dict.fromkeys((*models, *light_models(), RANDWIRE, TINY))
    parser.add_argument("--models", type=names_of(known), help="names with commas between")
    if batches:
        parser.add_argument("--batches", type=counts, help="numbers with commas between")
    if rounds:
        parser.add_argument("--rounds", type=count, default=rounds, help="of turns")
    parser.set_defaults(batches=None, **({} if rounds else {"rounds": 1}))
    parser.add_argument("--time-limit", type=duration, default=limit, help="seconds for each solve")
    where = f"JSON file (of all: results/{result}; of some: build/{result})"
    parser.add_argument("--output", type=output_file, help=where)
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    args = parser.parse_args(arguments)
    if args.show:
        write_pages()
        return None
    names = args.models or ([TINY] if args.small else models)
    numbers = args.batches or ([2] if args.small else batches)
    return Chosen(
        tuple(names),
        tuple(numbers),
        1.0 if args.small else args.time_limit,
        args.small,
        _output(args, result),
        1 if args.small else args.rounds,
    )


def _output(args: argparse.Namespace, result: str) -> Path | None:
    """Where rows are written. What takes minutes is not lost: some rows, which are no result, go
    where they overwrite none.
    """
    if args.small:
        output: Path | None = args.output
        return output
    some = args.models or args.batches
    output = args.output or (ROOT / "build" if some else RESULTS) / result
    print(f"rows are written to {output}", flush=True)
    return output
