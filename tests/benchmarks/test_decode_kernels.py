"""The benchmark of a decoding step's kernels, small."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest

from benchmarks import decode_kernels
from benchmarks.decoding import kernels_page
from benchmarks.documents import write_document

# Root mean squares beside float64; those of weights are what their types cost.
ERRORS = {"float32": 1e-6, "bfloat16": 5e-3, "int8": 2e-2, "int4": 0.2}


@pytest.fixture(scope="module")
def rows():
    return decode_kernels.main(["--small"])


def test_every_kind_and_type_is_right(rows):
    assert {row.kind for row in rows} == set(decode_kernels.KINDS)
    assert {row.dtype for row in rows} == set(ERRORS)
    for row in rows:
        assert row.error < ERRORS[row.dtype]
        assert row.bytes > 0 and row.us > 0


def test_quantised_weights_have_their_own_rule_and_fewer_bytes(rows):
    products = {(row.dtype, row.rows): row for row in rows if row.kind == "product"}
    for dtype, share in (("bfloat16", 1 / 2), ("int8", 8.5 / 32), ("int4", 4.5 / 32)):
        ratio = products[dtype, 1].bytes / products["float32", 1].bytes
        assert ratio == pytest.approx(share, rel=0.01)
        assert products[dtype, 1].rule == ("gemm" if dtype == "bfloat16" else "groupwise")


def test_the_page_names_every_goal(rows, tmp_path):
    path = tmp_path / "decode_kernels.json"
    write_document(path, "test", map(asdict, rows), target="cpu", span=1, peak_gflops=1.0)
    document = json.loads(path.read_text(encoding="utf-8"))
    goals = kernels_page.GOALS["decode_kernels"](document)
    assert len(goals) == len(ERRORS) + 2  # products of each type, two types of caches
    page = kernels_page.SECTIONS["decode_kernels"](document)
    assert all(row.case in page for row in rows)
