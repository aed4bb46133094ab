"""The quick tests are there, and need nothing that only `make test` installs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.quick import PEERS, QUICK
from tests.test_floors import MODULES

ROOT = Path(__file__).parent.parent
# Statements in no function: those that stand at the beginning of a line.
_LOADING = re.compile(r"^(?:from ([\w.]+) )?import (\([^)]*\)|.*)$", re.M)
_PEER = re.compile(rf"^(?:import|from) (?:{'|'.join(sorted(PEERS))})\b", re.M)


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
        said = f"{file.relative_to(ROOT)}: {this.relative_to(ROOT)} imports"
        yield from (f"{said} {name}" for name in loaded_by(this) & needing_peers())
        for name in imports_of(this):
            if name.partition(".")[0] in PEERS:
                yield f"{said} {name}"
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


def loaded_by(file: Path) -> set[str]:
    """Full names of our modules that are loaded with a file, and of what it takes from them."""
    found: set[str] = set()
    for base, names in _LOADING.findall(file.read_text(encoding="utf-8")):
        taken = re.findall(r"[\w.]+", re.sub(r"#.*| as \w+", "", names))
        found |= {base, *(f"{base}.{name}" for name in taken)} if base else set(taken)
    parts = [name.split(".") for name in found if name.startswith("tvm_hetero.")]
    return {".".join(each[:end]) for each in parts for end in range(2, len(each) + 1)}


@cache
def needing_peers() -> frozenset[str]:
    """Full names of our modules with which a peer is loaded, at once or behind others."""
    texts = {f"tvm_hetero.{n}".removesuffix(".__init__"): path for n, path in MODULES.items()}
    loads = {name: loaded_by(path) for name, path in texts.items()}
    found = {name for name, path in texts.items() if _PEER.search(path.read_text("utf-8"))}
    while new := {name for name in loads.keys() - found if loads[name] & found}:
        found |= new
    return frozenset(found)


def test_modules_that_load_a_peer_are_known() -> None:
    found = needing_peers()
    assert {"tvm_hetero.serve.http.routes", "tvm_hetero.serve.server"} <= found
    assert not {name for name in found if name.startswith(("tvm_hetero.cli", "tvm_hetero.report"))}


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
