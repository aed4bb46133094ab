"""The official ONNX backend suite, all 2033 tests: right, wrong, refused, or worse.

    python -m benchmarks.conformance                      # what is left of it; writes the results
    python -m benchmarks.conformance --only 'lstm|gru'    # prints what becomes of these
    python -m benchmarks.conformance --gpu --sample       # every kernel on the first GPU
    python -m benchmarks.conformance --compare BEFORE AFTER
    python -m benchmarks.conformance --page               # docs/onnx-operators.md of the results

Each test is imported, placed on two CPU devices by analytical costs, built and run, in processes
that a crash takes no other test along with. Three ways (`conforming.engines`): raw, with the values
that a refusal asks for, and as in networks; and ONNX Runtime over the same tests. What became of
each stands in a file of rows (--rows), to which a run adds what it does not have yet of this very
code: a run that was ended goes on. Two such files compared: what was right and no longer is.
When all tests have been run, their counts go to results/conformance.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.conforming.engines import RAW, VARIANTS
from benchmarks.conforming.page import page
from benchmarks.conforming.rows import ROOT, Rows, lost, read_rows, run_suite
from benchmarks.conforming.suite import SuiteTest, sample_of, suite_tests
from benchmarks.conforming.summary import by_operator, counts, reasons
from benchmarks.execution.argument_types import pattern

RESULTS = ROOT / "benchmarks" / "results" / "conformance.json"
PAGE = ROOT / "docs" / "onnx-operators.md"
ROWS, RUNTIME = ROOT / "build" / "conformance.jsonl", ROOT / "build" / "conformance_ort.jsonl"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    args = _parser().parse_args(arguments)
    if args.page:
        PAGE.write_text(page(json.loads(RESULTS.read_text(encoding="utf-8"))), encoding="utf-8")
        return 0
    if args.compare:
        before, after = (read_rows(path) for path in args.compare)
        found = lost(before, after, VARIANTS)
        print("\n".join(found))
        return 1 if found else 0
    tests = suite_tests()
    if args.sample:
        chosen = sample_of(tests)
    else:
        chosen = [test for test in tests if args.only.search(test.name)]
    if args.gpu:
        rows = run_suite(chosen, args.rows, "gpu", args.jobs, _tell)
        print(report(rows, (RAW,)))
        return 0
    rows = run_suite(chosen, args.rows, at_once=args.jobs, told=_tell)
    print(report(rows))
    if len(chosen) == len(tests):
        write_results(tests, rows, run_suite(tests, args.runtime_rows, "onnxruntime", args.jobs))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=Path, default=ROWS)
    parser.add_argument("--runtime-rows", type=Path, default=RUNTIME, help="ONNX Runtime's")
    named = "tests whose names have this in them"
    parser.add_argument("--only", type=pattern, default="", metavar="REGEX", help=named)
    parser.add_argument("--sample", action="store_true", help="one test of every operator")
    parser.add_argument("--gpu", action="store_true", help="prints what becomes of them on a GPU")
    parser.add_argument("--jobs", type=int, default=2, metavar="N")
    parser.add_argument("--compare", nargs=2, type=Path, metavar=("BEFORE", "AFTER"))
    parser.add_argument("--page", action="store_true", help="write docs/onnx-operators.md")
    return parser


def report(rows: Rows, variants: Sequence[str] = VARIANTS) -> str:
    """Return, for each variant, the counts and what fails by reason."""
    lines = []
    for variant in variants:
        tally = Counter(row.get(variant, ("crash", ""))[0] for row in rows.values())
        lines.append(f"\n{variant}: {dict(tally)}")
        for why, names in reasons(rows, rows, variant).items():
            shown = names[:3] if why.startswith("refused") else names
            lines.append(f"  {len(names):4}  {why}  [{', '.join(shown)}]")
    return "\n".join(lines)


def write_results(tests: Sequence[SuiteTest], rows: Rows, runtime: Rows) -> None:
    """Write results/conformance.json."""
    import onnx

    from benchmarks.documents import write_document

    head: dict[str, Any] = {
        "onnx": onnx.__version__,
        "counts": counts(tests, rows, runtime),
    }
    write_document(RESULTS, "the ONNX backend suite", by_operator(tests, rows, runtime), **head)


def _tell(done: int, of: int) -> None:
    if done % 50 == 0 or done == of:
        print(f"{done} of {of}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
