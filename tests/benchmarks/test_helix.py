"""The small mode of benchmarks/helix.py runs, and its page quotes the committed results."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import helix
from benchmarks.layer_flows.cases import facts, layer_flow
from tvm_hetero.planning.helix import judge
from tvm_hetero.planning.helix.problem import LayerInterval


def test_helix_small():
    rows = {(row["cluster"], row["model"]): row for row in helix.main(["--small"])}
    assert rows["small10", "llama70b"]["value"] is None
    small = rows["small10", "llama30b"]
    assert small["proven"]
    assert small["value"] == pytest.approx(small["said"])
    assert rows["single24", "llama70b"]["value"] >= 1754


def test_the_judge_says_of_published_layouts_what_their_program_says():
    said = [each for each in facts()["layouts"] if each["said"] is not None]
    assert len(said) == 6
    for each in said:
        problem = layer_flow(each["cluster"], each["model"], partial=False)
        layout = [LayerInterval(*held) for held in each["holds"]]
        assert judge(problem, layout).value == pytest.approx(each["said"], rel=1e-6)


def test_the_page_quotes_the_committed_results(tmp_path: Path):
    helix.write_page(helix.RESULTS, tmp_path)
    written = (tmp_path / "layer-flows.md").read_text(encoding="utf-8")
    assert written == (helix.ROOT / "docs" / "layer-flows.md").read_text(encoding="utf-8")
