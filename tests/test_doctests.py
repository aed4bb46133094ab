"""Examples in docstrings are run: what they say is what comes.

Those that are marked as skipped need an artifact, or seconds.
"""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

from tests.test_docs import FORMATS, blocks
from tests.test_floors import MODULES

EXAMPLES = sorted(name for name, path in MODULES.items() if ">>> " in path.read_text())


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_module(name: str, tmp_path: Path, monkeypatch) -> None:
    # The file that one of them reads is the one that docs/formats.md shows.
    (layer_flow,) = [each for each in blocks(FORMATS, "yaml") if "layer-flow/1" in each]
    (tmp_path / "problem.yaml").write_text(layer_flow, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"tvm_hetero.{name}".removesuffix(".__init__"))
    done = doctest.testmod(module)
    assert done.failed == 0
    text = MODULES[name].read_text(encoding="utf-8")
    assert done.attempted > 0 or "# doctest: +SKIP" in text


def test_there_are_examples() -> None:
    assert {"planning.__init__", "zoo.__init__", "doctor.packages"} <= set(EXAMPLES)
