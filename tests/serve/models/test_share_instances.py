"""Executors of shares: kept while they are used, closed when others are used more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tvm_hetero.artifact.read import load_artifact
from tvm_hetero.errors import RunError
from tvm_hetero.serve.models.share_instances import ShareInstances


@pytest.fixture
def two(served_models: Path) -> Iterator[ShareInstances]:
    """Keeps two executors of ``dense``, on cores 0 and 1."""
    with ShareInstances(load_artifact(served_models / "dense.hetero"), most=2) as made:
        yield made


def test_the_one_that_was_asked_for_longest_ago_goes(two):
    first, second = sorted(two.plans.cores)
    one = two.make(frozenset({first}), "single")
    other = two.make(frozenset({second}), "single")
    assert two.find(frozenset({first}), "single") is one  # so it is not the oldest any more
    two.make(two.plans.cores, "single")
    assert two.find(frozenset({first}), "single") is one
    assert two.find(frozenset({second}), "single") is None
    with pytest.raises(RunError, match="closed"):
        other.run(other.random_inputs(1))


def test_nothing_is_made_for_a_model_that_is_closed(two):
    two.close()
    with pytest.raises(RunError, match="closed"):
        two.make(two.plans.cores, "single")
