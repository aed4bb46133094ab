"""What the executor costs beside the kernels: a segment, its parts, a request; in microseconds.

    python -m benchmarks.dispatch                  writes results/dispatch.json
    python -m benchmarks.dispatch --small          a second (the tests run it)
    python -m benchmarks.dispatch --show           writes build/results/performance.md

Segments that do nothing, in chains on one worker and on two: our executor, request after request
and in a stream, Python threads, and TVM's virtual machine (`benchmarks.execution.chains`). Then the
parts: a kernel call, the start of a step, an edge across devices, a request from submit to result,
and what waking up after an idle time adds (`benchmarks.execution.costs`).

The goals are for the best run, since the machine may be busy; median and p99 stand beside it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from benchmarks.documents import write_document
from benchmarks.execution import chains, costs
from benchmarks.execution.empty import Figure
from benchmarks.execution.page import SEGMENT_GOALS
from benchmarks.results_page import write_pages

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "dispatch.json"
_SEGMENTS, _RUNS = 500, 200


def main(arguments: Sequence[str] | None = None) -> list[Figure]:
    """Measure, print and write; the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="short chains, few runs, no file")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS.name})")
    parser.add_argument("--show", action="store_true", help="write build/results/*.md")
    args = parser.parse_args(arguments)
    if args.show:
        write_pages()
        return []
    segments, runs = (20, 10) if args.small else (_SEGMENTS, _RUNS)
    print(_HEAD)
    figures = chains.segments(segments, runs) + costs.parts(segments, runs)
    for figure in figures:
        print(_line(figure))
    output = args.output or (None if args.small else RESULTS)
    if output is not None:
        write_document(output, "python -m benchmarks.dispatch", map(asdict, figures),
                       target="generic", segments=segments, runs=runs)  # fmt: skip
        print(f"written to {output}")
    return figures


_HEAD = f"{'µs of':<28}{'by':<26}{'workers':>7}{'best':>9}{'median':>9}{'p99':>9}   goal"


def _line(figure: Figure) -> str:
    text = f"{figure.what:<28}{figure.runner:<26}{figure.workers:>7}"
    text += "".join(f"{value:>9.2f}" for value in (figure.best, figure.median, figure.p99))
    if not figure.what.startswith("segment") or figure.runner not in ("executor", "stream"):
        return text
    limit = SEGMENT_GOALS[figure.workers]
    return f"{text}   < {limit:g}: {'met' if figure.best < limit else 'MISSED'}"


if __name__ == "__main__":
    main()
