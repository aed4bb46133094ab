"""Artifacts of one model under one name: what cannot be its plan for batches is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models import dense
from tests.serve.batch_models import build_for, lookup
from tvm_hetero.errors import UsageError
from tvm_hetero.serve.models.open_model import open_model
from tvm_hetero.serve.models.repository import Repository


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("batches")
    build_for(1, lookup()).save(home / "one")
    build_for(2, lookup()).save(home / "two")
    build_for(2, lookup(scale=2.1)).save(home / "otherwise")
    build_for(2, dense(3, 12)).save(home / "other")
    return home


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("two,one", "expected the first to be for 1 element"),
        ("one,one", "expected the first to be for 1 element"),
        ("one,two,two", "one for each larger size"),
        ("one,other", "of another model: expected inputs"),
        ("one,otherwise", "output 'output0' of element 0 is another one"),
    ],
)
def test_what_is_no_plan_for_batches_is_refused(folder, names, why):
    with pytest.raises(UsageError, match=why):
        open_model("rows", "1", [folder / name for name in names.split(",")])


def test_equal_weights_are_there_once(folder):
    model = open_model("rows", "1", [folder / "one", folder / "two"])
    try:
        own, batch = (each.executor._model.weights for each in (model, *model.batches))
        assert any(a.data_ptr() == b.data_ptr() for a in own.values() for b in batch.values())
    finally:
        model.close()


def test_no_path_of_any_artifact_is_told(folder):
    repository = Repository()
    repository.enter("rows", folder / "one", batches=[folder / "one-two"])
    error = UsageError(f"damaged: {folder / 'one'}, {folder / 'one-two'}")
    assert repository.without_path("rows", error) == "damaged: rows, rows"
