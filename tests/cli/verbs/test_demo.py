from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.invoke import tvm_hetero
from tests.cli.verbs.test_partition import workplace
from tvm_hetero.platform import Platform

__all__ = ["workplace"]  # the fixture
# Where the tests of `make demo` have left what links and interference of this machine are, or will
# look for them.
_CACHE = os.environ["TVM_HETERO_CACHE"]


@pytest.mark.alone  # it measures until that settles, which takes long beside others
def test_demo_writes_its_four_results_and_says_who_won(
    workplace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVM_HETERO_CACHE", _CACHE)
    folder = tmp_path / "demo"
    model = workplace / "small.onnx"
    result = tvm_hetero("demo", "--folder", folder, "--model", model, "--repeat", 5)
    assert result.status == 0
    numbers = [line.split("]")[0].strip(" [") for line in result.out.splitlines() if "] " in line]
    assert numbers[:9] == [str(n) for n in range(1, 10)]
    won = "times as fast as the best single device" in result.out
    assert won != ("does NOT beat the best single device" in result.out)
    assert "largest difference from ONNX Runtime's outputs" in result.out
    assert Platform.load(folder / "platform.yaml").devices
    assert (folder / "net.hetero" / "manifest.json").is_file()
    assert json.loads((folder / "trace.json").read_text())["traceEvents"]
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.index("<h2>Plan</h2>") < page.index("<h2>Measured</h2>")
    assert "http://" not in page and "https://" not in page


def test_unknown_model_suggests_the_nearest(tmp_path: Path) -> None:
    result = tvm_hetero("demo", "--folder", tmp_path, "--model", "inception_v")
    assert result.status == 2
    assert "did you mean 'inception_v" in result.err
