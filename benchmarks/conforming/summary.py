"""The results of the suite, counted: by kind of test and by operator, with what fails and why."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.conforming.engines import NETWORKS, RAW, REFUSED, RIGHT, ROUNDING, VARIANTS, WRONG
from benchmarks.conforming.rows import Rows
from benchmarks.conforming.suite import KINDS, SuiteTest

Row = dict[str, Any]
ALL = "all"
_SHORT, _TOLD = 110, 160
_STAGES = re.compile(r"^(import|place|build|run): ")
_KINDS = re.compile(r"^(Model|Artifact|Profile|Usage)Error: ")
_SENTENCE = re.compile(r"\.(?= [A-Z]|$)")


def counts(tests: Sequence[SuiteTest], rows: Rows, runtime: Rows) -> dict[str, Row]:
    """Return, for each kind and for all: tests, outcomes by variant, and ONNX Runtime's passes."""
    found = {}
    for kind in (*KINDS, ALL):
        of_kind = [test.name for test in tests if kind in (test.kind, ALL)]
        passed = [name for name in of_kind if runtime[name][RAW][0] == RIGHT]
        row: Row = {"tests": len(of_kind), "onnxruntime": len(passed)}
        for variant in VARIANTS:
            row[variant] = _tally(rows[name].get(variant, ("crash", ""))[0] for name in of_kind)
            row[f"{variant}_of_onnxruntime"] = len(_right(passed, rows, variant))
        found[kind] = row
    return found


def by_operator(tests: Sequence[SuiteTest], rows: Rows, runtime: Rows) -> list[Row]:
    """Return a row for each operator with node tests: how many are right, and what fails why.

    ``raw_only`` are those that only fail where parameters come at run time.
    """
    named: dict[str, list[SuiteTest]] = defaultdict(list)
    for test in tests:
        named[test.operator or f"({test.kind})"].append(test)
    return [_operator(name, named[name], rows, runtime) for name in sorted(named)]


def _operator(name: str, tests: Sequence[SuiteTest], rows: Rows, runtime: Rows) -> Row:
    plain = [test.name for test in tests if test.kind != "node expanded"]
    expanded = [test.name for test in tests if test.kind == "node expanded"]
    row: Row = {"operator": name, "tests": len(plain)}
    row |= {variant: len(_right(plain, rows, variant)) for variant in VARIANTS}
    row["onnxruntime"] = len(_right(plain, runtime, RAW))
    if expanded:
        row["expanded"] = [len(expanded), len(_right(expanded, rows, NETWORKS))]
    fails = reasons(rows, [*plain, *expanded], NETWORKS)
    if fails:
        row["fails"] = _told(rows, fails)
    raw = set(_wrong(plain + expanded, rows, RAW)) - set(_wrong(plain + expanded, rows, NETWORKS))
    if raw:
        row["raw_only"] = sorted(short_name(test) for test in raw)
    return row


def _told(rows: Rows, fails: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Return the names by outcome and, of a refusal, what it says of the first of them."""
    found: dict[str, list[str]] = {}
    for names in fails.values():
        outcome, why = rows[names[0]][NETWORKS]
        text = _first_sentence(why)
        told = outcome if outcome in (WRONG, ROUNDING) else f"{outcome}: {text}"
        found.setdefault(told, []).extend(short_name(name) for name in names)
    return found


def _first_sentence(why: str) -> str:
    """Return what a message begins with, which is what is the matter; cures come after it."""
    text = _KINDS.sub("", _STAGES.sub("", why))
    first = _SENTENCE.split(text, maxsplit=1)[0].rstrip(".")
    return first if len(first) <= _TOLD else f"{first[:_TOLD].rstrip()} ..."


def reasons(rows: Rows, names: Iterable[str], variant: str) -> dict[str, list[str]]:
    """Return the tests that fail by outcome and reason, the most frequent reason first."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        outcome, why = rows[name].get(variant, ("crash", "an earlier variant ended the process"))
        if outcome != RIGHT:
            found[f"{outcome}: {short_reason(why)}"].append(name)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def short_reason(why: str) -> str:
    """Return what reasons of one kind share: without the stage, names in quotes, and numbers."""
    text = _STAGES.sub("", why)
    text = text.removeprefix("ModelError: ").removeprefix("AssertionError: ")
    text = re.sub(r"'[^']*'", "'..'", text)
    text = re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", "N", text)
    first, _, rest = text.partition(". ")
    return (first if len(first) > 40 or not rest else text)[:_SHORT].rstrip()


def short_name(test: str) -> str:
    """Return a test's name without what all of them begin with."""
    return test.removeprefix("test_")


def failing(document: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the tests that the results say fail: as in networks; there or raw."""
    found: dict[str, set[str]] = {RAW: set(), NETWORKS: set()}
    for row in document["rows"]:
        names = {f"test_{name}" for tests in row.get("fails", {}).values() for name in tests}
        found[NETWORKS] |= names
        found[RAW] |= names | {f"test_{name}" for name in row.get("raw_only", ())}
    return found


def _right(names: Iterable[str], rows: Rows, variant: str) -> list[str]:
    return [name for name in names if rows[name].get(variant, ("",))[0] == RIGHT]


def _wrong(names: Iterable[str], rows: Rows, variant: str) -> list[str]:
    return [name for name in names if rows[name].get(variant, ("",))[0] != RIGHT]


def _tally(outcomes: Iterable[str]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for outcome in outcomes:
        found[outcome] += 1
    return dict(sorted(found.items()))
