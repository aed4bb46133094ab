"""The folder of a model of open dimensions: read back, and refused where it is damaged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.sizes.models import write_conv_net
from tvm_hetero.artifact.manifest import read_manifest
from tvm_hetero.errors import ArtifactError, UsageError
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.problem import Objective
from tvm_hetero.sizes.build import OpenModel, size_facts
from tvm_hetero.sizes.folder import (
    SizeFacts,
    built_sizes,
    check_model,
    read_size_facts,
    save_sizes,
)
from tvm_hetero.sizes.model_files import copy_model

SHAPES = {"x": (1, 3, 8, range(16, 97, 16))}


def facts_of(tmp_path: Path, **others: Any) -> tuple[OpenModel, SizeFacts]:
    """A small model, and the facts of a folder that has it."""
    model = OpenModel(write_conv_net(tmp_path / "net.onnx"), SHAPES, **others)
    return model, size_facts(model, PartitionOptions(cost_model="analytical"))


def test_facts_are_read_as_they_were_written(tmp_path: Path) -> None:
    model, facts = facts_of(tmp_path, values={"k": [1, 2]}, random_weights=3, build="any")
    save_sizes(tmp_path / "net.hetero", facts, lambda folder: copy_model(model.path, folder))
    found = read_size_facts(tmp_path / "net.hetero")
    assert found == facts
    assert found.settings["values"] == {"k": [1, 2]}
    assert check_model(tmp_path / "net.hetero", found).read_bytes() == model.path.read_bytes()


def test_a_list_of_sizes_is_read_as_it_was_written(tmp_path: Path) -> None:
    model = OpenModel(
        write_conv_net(tmp_path / "net.onnx"), {"x": (1, 3, 8, [48, 16])}, build="never"
    )
    facts = size_facts(model, PartitionOptions())
    save_sizes(tmp_path / "net.hetero", facts, lambda _: None)
    found = read_size_facts(tmp_path / "net.hetero")
    assert (found, found.model) == (facts, "")
    with pytest.raises(ArtifactError, match="the model was not kept"):
        check_model(tmp_path / "net.hetero", found)


def test_a_model_that_was_changed_is_not_built_from(tmp_path: Path) -> None:
    model, facts = facts_of(tmp_path)
    save_sizes(tmp_path / "net.hetero", facts, lambda folder: copy_model(model.path, folder))
    (tmp_path / "net.hetero/model/net.onnx").write_bytes(b"another")
    with pytest.raises(ArtifactError, match=r"model/net.onnx' was changed or damaged"):
        check_model(tmp_path / "net.hetero", facts)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("axes", [], "axes of different names"),
        ("axes", [{"name": "width", "from": 0, "to": 4, "step": 1}], "from"),
        ("axes", [{"name": "width", "from": 9, "to": 4, "step": 1}], "there is no size"),
        ("inputs", {"x": [1, "height"]}, "names of axes and numbers"),
        ("build", "always", "one of 'never', 'range', 'any'"),
        ("settings", {}, "settings"),
        ("format", "tvm-hetero/sizes/9", "tvm-hetero/sizes/1"),
    ],
)
def test_a_document_that_is_none_is_refused(
    tmp_path: Path, key: str, value: object, words: str
) -> None:
    _, facts = facts_of(tmp_path)
    path = tmp_path / "net.hetero"
    save_sizes(path, facts, lambda _: None)
    document = json.loads((path / "sizes.json").read_text())
    (path / "sizes.json").write_text(json.dumps({**document, key: value}))
    with pytest.raises(ArtifactError, match=words):
        read_size_facts(path)


def test_what_is_half_written_or_no_size_is_no_built_size(tmp_path: Path) -> None:
    _, facts = facts_of(tmp_path)
    for name in ("16", ".32.a1b2", "48x1", "wide"):
        (tmp_path / "sizes" / name).mkdir(parents=True)
        (tmp_path / "sizes" / name / "manifest.json").write_text("{}")
    (tmp_path / "sizes" / "64").mkdir()  # without a manifest
    assert built_sizes(tmp_path, facts) == [(16,)]


def test_a_failure_while_writing_leaves_what_was_there(tmp_path: Path) -> None:
    _, facts = facts_of(tmp_path)
    path = tmp_path / "net.hetero"
    save_sizes(path, facts, lambda folder: (folder / "first").touch())

    def fail(folder: Path) -> None:
        (folder / "second").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_sizes(path, facts, fail)
    assert sorted(p.name for p in path.iterdir()) == ["first", "sizes.json"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.hetero", "net.onnx"]


def test_other_folders_are_left_alone_and_other_readers_say_what_it_is(tmp_path: Path) -> None:
    _, facts = facts_of(tmp_path)
    with pytest.raises(UsageError, match="is there and is no artifact"):
        save_sizes(tmp_path, facts, lambda _: None)
    with pytest.raises(ArtifactError, match=r"expected a folder with sizes\.json"):
        read_size_facts(tmp_path)
    save_sizes(tmp_path / "net.hetero", facts, lambda _: None)
    with pytest.raises(ArtifactError, match="serves several sizes"):
        read_manifest(tmp_path / "net.hetero")


def test_a_batch_is_a_dimension(tmp_path: Path) -> None:
    model, _ = facts_of(tmp_path)
    with pytest.raises(UsageError, match="a batch is one of them"):
        size_facts(model, PartitionOptions(objective=Objective(batch=2)))
    with pytest.raises(UsageError, match="build 'sometimes'"):
        OpenModel(model.path, SHAPES, build="sometimes")
