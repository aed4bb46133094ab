"""The quick tests are there, and need nothing that only `make test` installs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.quick import PEERS, QUICK

ROOT = Path(__file__).parent.parent


def test_every_path_is_there() -> None:
    assert [path for path in QUICK if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("path", ["tests/conftest.py", *QUICK])
def test_none_imports_a_peer(path: str) -> None:
    files = sorted((ROOT / path).rglob("*.py")) if (ROOT / path).is_dir() else [ROOT / path]
    assert files
    assert [line for file in files for line in peers_of(file)] == []


def peers_of(file: Path) -> Iterator[str]:
    """The peers that a file imports, in functions too, or helpers of tests that it imports."""
    seen, left = set(), [file]
    while left:
        this = left.pop()
        seen.add(this)
        for name in imports_of(this):
            if name.partition(".")[0] in PEERS:
                yield f"{file.relative_to(ROOT)}: {this.relative_to(ROOT)} imports {name}"
            helper = ROOT / f"{name.replace('.', '/')}.py"
            if name.startswith("tests.") and helper.exists() and helper not in seen:
                left.append(helper)


@cache
def imports_of(file: Path) -> frozenset[str]:
    """Dotted names of all that a file imports, and of what it takes from there."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update([node.module, *(f"{node.module}.{alias.name}" for alias in node.names)])
    return frozenset(names)


def test_a_peer_behind_a_helper_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_quick.ROOT", tmp_path)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "helper.py").write_text("def f():\n    from torch.nn import Linear\n")
    test = tmp_path / "tests" / "test_it.py"
    test.write_text("from tests import helper\n")
    found = {line.split(": ")[1] for line in peers_of(test)}
    assert found == {
        "tests/helper.py imports torch.nn", "tests/helper.py imports torch.nn.Linear"
    }  # fmt: skip
