"""The node tests of the onnx wheel, the small way: what is imported is computed right."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.onnx_suite import RIGHT, SMALL, lost, main, with_constants


def test_what_is_imported_of_a_few_is_right_and_the_rest_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert main([str(out), "--small", "--run"]) == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    found = {name: status for name, status, _ in rows}
    assert len({name.removesuffix("+constants") for name in found}) >= len(SMALL) - 1
    assert set(found.values()) == {"right", "refused"}
    assert found["test_slice"] == "refused" and found["test_slice+constants"] == RIGHT
    assert main(["--compare", str(out), str(out)]) == 0


def test_what_was_right_and_no_longer_is_is_named() -> None:
    before = [("a", "right", ""), ("b", "wrong", ""), ("c", "imported", "")]
    after = [("a", "crashed", "so"), ("b", "wrong", ""), ("c", "imported", ""), ("d", "wrong", "")]
    assert lost(before, after) == ["a: right -> crashed: so"]


def test_all_inputs_but_the_first_become_constants() -> None:
    from benchmarks.onnx_suite import cases

    plain, constant = cases(["test_add_bcast"])
    assert [value.name for value in plain.model.graph.input] == ["x", "y"]
    assert [value.name for value in constant.model.graph.input] == ["x"]
    assert [tensor.name for tensor in constant.model.graph.initializer] == ["y"]
    assert with_constants(plain.model, plain.inputs)[1] == constant.inputs
