"""The benchmark of sums in registers and of asking ahead, small."""

from __future__ import annotations

import math

import pytest

from benchmarks import asking


@pytest.fixture(scope="module")
def rows():
    return asking.main(["--small"])


def test_every_variant_is_right_and_timed(rows):
    variants = {row.kind: tuple(row.us) for row in rows}
    assert variants == {
        "convolution": (*asking.VARIANTS, "ort"),
        "product": asking.VARIANTS[:2],
    }
    for row in rows:
        assert row.error < (1e-4 if row.kind == "convolution" else 0.05)
        assert all(0 < us < math.inf for us in row.us.values())


def test_the_summary_compares_each_variant_with_the_one_before():
    fast, slow = {"tvm": 4.0, "registers": 2.0}, {"tvm": 9.0, "registers": 1.0}
    rows = [asking.Row("product", "a", fast, 0.0), asking.Row("product", "b", slow, 0.0)]
    assert asking.summary(rows) == ["product: tvm / registers: 4.243 in the mean, 2.00 to 9.00"]
