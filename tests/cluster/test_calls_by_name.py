"""What is asked of a node by name, over Ray, is a method of it: no type checker sees that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tvm_hetero.cluster.node import Node

ROOT = Path(__file__).parents[2]


def names() -> Iterator[tuple[str, str]]:
    """All that stands as text in the place of ``call(node, "name")``, and where."""
    for folder in ("tvm_hetero/cluster", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(node, ast.Call) or len(node.args) < 2:
                    continue
                asked = node.args[1]
                called = isinstance(node.func, ast.Attribute) and node.func.attr == "call"
                text = asked.value if isinstance(asked, ast.Constant) else None
                if called and isinstance(text, str) and not text.startswith("__"):  # Ray's own
                    yield text, f"{path.relative_to(ROOT)}:{node.lineno}"


def test_each_is_a_method_of_a_node() -> None:
    found = dict(names())
    assert {"usage", "receive", "start"} <= found.keys()
    assert {name: where for name, where in found.items() if not hasattr(Node, name)} == {}
