"""The ONNX backend suite: one test of every operator, and how the whole of it is run and told."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks import conformance
from benchmarks.conforming.children import tried
from benchmarks.conforming.engines import (
    CRASH,
    EXCEPTION,
    NETWORKS,
    RAW,
    REFUSED,
    RIGHT,
    TIMEOUT,
    VALUES,
    VARIANTS,
    WRONG,
    differ_by_rounding,
)  # fmt: skip
from benchmarks.conforming.page import page
from benchmarks.conforming.rows import lost, read_rows, run_suite
from benchmarks.conforming.suite import KINDS, SuiteTest, sample_of, suite_tests
from benchmarks.conforming.summary import failing, reasons, short_reason
from benchmarks.conforming.variants import with_constants, with_kernels_behind

RESULTS = json.loads(conformance.RESULTS.read_text(encoding="utf-8"))


@cache
def all_tests() -> list[SuiteTest]:
    return suite_tests()


def named(name: str) -> SuiteTest:
    return next(test for test in all_tests() if test.name == name)


def test_there_are_2033_of_six_kinds_over_197_operators() -> None:
    assert len(all_tests()) == len({test.name for test in all_tests()}) == 2033
    assert {test.kind for test in all_tests()} == set(KINDS)
    assert len(sample_of(all_tests())) == 197


def test_what_was_right_of_every_operator_is_right_and_nothing_is_worse_than_refused(
    tmp_path: Path,
) -> None:
    # Every fourth one: all take half a minute, and the benchmark runs all 2,033.
    rows = run_suite(sample_of(all_tests())[::4], tmp_path / "rows.jsonl", at_once=1)
    fails = failing(RESULTS)
    for variant in (RAW, NETWORKS):
        bad = {name for name, row in rows.items() if row[variant][0] != RIGHT}
        assert bad - fails[variant] == set()
        worse = {n for n in bad if rows[n][variant][0] in (WRONG, EXCEPTION, CRASH, TIMEOUT)}
        assert worse - known_to_be_worse() == set()


def known_to_be_worse() -> set[str]:
    """The tests of which the results say that they are wrong or end in another's exception."""
    return {
        f"test_{name}"
        for row in RESULTS["rows"]
        for why, names in row.get("fails", {}).items()
        for name in names
        if not why.startswith("refused")
    }


def test_the_page_is_what_the_results_say() -> None:
    assert conformance.PAGE.read_text(encoding="utf-8") == page(RESULTS)


def test_the_results_count_every_test_and_name_what_fails() -> None:
    total = RESULTS["counts"]["all"]
    assert all(sum(total[variant].values()) == total["tests"] == 2033 for variant in VARIANTS)
    fails = failing(RESULTS)
    assert len(fails[NETWORKS]) == 2033 - total[NETWORKS][RIGHT]
    assert fails[NETWORKS] <= {test.name for test in all_tests()}


def test_parameters_become_initializers_and_the_rest_stays_an_input() -> None:
    test = named("test_slice")
    assert test.parameters == ("starts", "ends", "axes", "steps")
    constant = with_constants(test, test.parameters)
    graph = onnx.load_from_string(constant.model).graph
    assert [value.name for value in graph.input] == ["x"] and len(constant.data[0][0]) == 1
    assert {tensor.name for tensor in graph.initializer} == set(test.parameters)
    # The expanded form of an operator has the parameters of the operator.
    assert named("test_clip_expanded").parameters == ("min", "max")


@pytest.mark.parametrize(
    ("found", "near"),
    [([1.0, 2e-7], True), ([1.0, 4e-7], False), ([1.0, np.nan], False), ([1.0 + 2e-7, 0.0], True)],
)
def test_rounding_is_told_apart_from_what_is_wrong(found: list[float], near: bool) -> None:
    expected = [np.array([1.0, 0.0], np.float32)]
    assert differ_by_rounding(expected, [np.array(found, np.float32)]) is near
    assert not differ_by_rounding(expected, [np.array(found, np.float64)])
    assert not differ_by_rounding(expected, [np.array([1, 0])])
    assert not differ_by_rounding(expected, [])


def test_a_kernel_behind_leaves_the_outputs_as_they_are() -> None:
    from onnx.reference import ReferenceEvaluator

    behind = with_kernels_behind(named("test_identity_opt"))
    assert behind is None
    behind = with_kernels_behind(named("test_shape"))
    assert behind is not None
    inputs, [expected] = behind.data[0]
    model = onnx.load_from_string(behind.model)
    names = [value.name for value in model.graph.input]
    [found] = ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))
    np.testing.assert_array_equal(found, expected)


def test_a_child_that_ends_is_a_crash_of_that_test_alone() -> None:
    tests = [named("test_abs"), named("test_acos")]
    found = {test.name: row for test, row in tried(tests, "no such engine", at_once=1)}
    assert set(found) == {"test_abs", "test_acos"}
    assert {row[RAW][0] for row in found.values()} == {CRASH}


def test_a_child_that_does_not_answer_in_time_is_ended() -> None:
    [(_, row)] = tried([named("test_abs")], "ours", at_once=1, seconds=0.01)
    assert row[RAW][0] == TIMEOUT


def test_what_the_rows_have_of_this_code_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.jsonl"
    test = named("test_lstm_defaults")
    first = run_suite([test], path, "onnxruntime", at_once=1)
    text = path.read_text()
    assert run_suite([test], path, "onnxruntime", at_once=1) == first
    assert path.read_text() == text and first[test.name][RAW] == (RIGHT, "")
    # Of other code, it is.
    path.write_text(text.replace('"code": "', '"code": "other '))
    run_suite([test], path, "onnxruntime", at_once=1)
    assert len(path.read_text().splitlines()) == 2


def test_what_was_right_and_no_longer_is_is_named(tmp_path: Path) -> None:
    before = {"a": {RAW: (RIGHT, "")}, "b": {RAW: (WRONG, "")}}
    after = {"a": {RAW: (CRASH, "so")}, "b": {RAW: (WRONG, "")}, "c": {RAW: (WRONG, "")}}
    assert lost(before, after, VARIANTS) == ["a (raw): right -> crash: so"]
    files = [tmp_path / "before", tmp_path / "after"]
    for path, rows in zip(files, (before, after), strict=True):
        lines = [json.dumps({"test": n, "code": "", "outcomes": o}) for n, o in rows.items()]
        path.write_text("\n".join(lines))
    assert read_rows(files[0]) == before
    assert conformance.main(["--compare", str(files[0]), str(files[1])]) == 1
    assert conformance.main(["--compare", str(files[0]), str(files[0])]) == 0


def test_reasons_of_one_kind_are_counted_together() -> None:
    why = "import: ModelError: node {} '{}' (LSTM) is not supported. Export it."
    rows = {n: {RAW: (REFUSED, why.format(i, n)), VALUES: (RIGHT, "")} for i, n in enumerate("ab")}
    assert reasons(rows, rows, RAW) == {
        "refused: node N '..' (LSTM) is not supported. Export it.": ["a", "b"]
    }
    assert reasons(rows, rows, VALUES) == {}
    assert short_reason("run: AssertionError: 3 of 4.5e-3") == "N of N"
