from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvm_hetero.errors import UsageError
from tvm_hetero.util.statistics import summarize

TIMES = st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=60)


@given(TIMES)
def test_equals_numpy(samples: list[float]) -> None:
    got = summarize(samples)
    assert got.count == len(samples)
    assert (got.min, got.max) == (min(samples), max(samples))
    for name, percent in (("median", 50), ("p90", 90), ("p99", 99)):
        assert getattr(got, name) == pytest.approx(np.percentile(samples, percent), rel=1e-12)
    assert got.mean == pytest.approx(np.mean(samples), rel=1e-12)


@given(TIMES)
def test_order_of_samples_does_not_matter(samples: list[float]) -> None:
    assert summarize(samples) == summarize(samples[::-1])


def test_one_sample_is_every_statistic() -> None:
    assert set(summarize([2.5]).as_dict().values()) == {1, 2.5}


@pytest.mark.parametrize("bad", [[], [1.0, math.nan], [math.inf]])
def test_refuses_what_has_no_order(bad: list[float]) -> None:
    with pytest.raises(UsageError):
        summarize(bad)
