from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import zoo_data
from tvm_hetero.frontends.onnx import light_models
from tvm_hetero.zoo.files import FOLDER, LIGHT, store, stored
from tvm_hetero.zoo.work_graph import Builder


def test_all_nine_models_are_there():
    assert sorted(LIGHT) == sorted(light_models()) == sorted(p.stem for p in FOLDER.glob("*.json"))
    for name, tasks in LIGHT.items():
        assert len(stored(name).works) == tasks


def test_the_files_are_what_import_and_fusion_gave(tmp_path: Path):
    """They are frozen: kernels that pad less (up to a tenth) or fuse more later leave them so."""
    zoo_data.main(["--models", "squeezenet,shufflenet", "--output", str(tmp_path)])
    for name in ("squeezenet", "shufflenet"):
        made, kept = json.loads((tmp_path / f"{name}.json").read_text()), stored(name)
        assert 0 <= len(kept.works) - len(made["works"]) <= 2
        assert 0 <= len(kept.edges) - len(made["edges"]) <= 2
        flops = sum(work[3] for work in made["works"])
        assert flops == pytest.approx(kept.flops, rel=0.12)


def test_operations_agree_with_the_papers():
    assert stored("resnet50").flops / 2e9 == pytest.approx(4.09, rel=0.02)
    assert stored("vgg19").parameters == pytest.approx(143.67e6, rel=0.005)
    kinds = {work.kind for work in stored("shufflenet").works}
    assert {"conv", "depthwise", "gemm", "elementwise", "input", "output"} == kinds


def test_written_and_read_again_it_is_the_same(tmp_path: Path):
    graph = stored("squeezenet")
    store(graph, tmp_path / "copy.json")
    assert (tmp_path / "copy.json").read_bytes() == (FOLDER / "squeezenet.json").read_bytes()


def test_what_has_no_column_is_not_dropped_silently(tmp_path: Path):
    net = Builder("net")
    net.add("attention", "attention", [], (1,), cache=5)
    with pytest.raises(ValueError, match="'attention' has a cache"):
        store(net.build(), tmp_path / "net.json")
