"""What the package defines, something beside its tests uses.

A function or class at the top of a module counts as used where its name stands in the package's
code (itself aside), in benchmarks, tutorials or examples, in docs, or in C++; a decorated one is
used by what decorates it. Names are not resolved: what is found is dead, and not all that is dead
is found.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

from tests.test_floors import MODULES, ROOT
from tvm_hetero.util.few_collections import few_collections

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

# Used by tests alone, and why that is right.
FOR_TESTS = {
    "ReferenceVM": "TVM's own VM, the reference that the executor's results are held against",
    "create_from_text": "plans that Python would refuse, for the checks that C++ makes",
}
_USERS = ("benchmarks", "tutorials", "examples", "docs", "src", "README.md", "pyproject.toml")
_WORD = re.compile(r"[A-Za-z_]\w*")


def _names(tree: ast.AST) -> Iterator[str]:
    """All names that a piece of code speaks of, those in strings too (lazy imports, `__all__`)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # A verb's function is found by the verb's name (`tvm_hetero.cli.verb_table`).
            for text in {node.value, node.value.replace("-", "_")}:
                yield from _WORD.findall(text) if _is_no_prose(text) else ()


def _is_no_prose(text: str) -> bool:
    return " " not in text.strip() or "\n" not in text


def _outside() -> set[str]:
    """Words of what uses the package: programs, C++ and docs."""
    paths = [path for user in _USERS for path in [ROOT / user, *(ROOT / user).rglob("*")]]
    texts = (p.read_text() for p in paths if p.suffix in {".py", ".md", ".toml", ".cc", ".h"})
    return {word for text in texts for word in _WORD.findall(text)}


def unused(trees: dict[str, ast.Module], outside: set[str]) -> list[str]:
    """``module.name`` of what is defined at the top of a module and spoken of nowhere else."""
    by_module = {module: Counter(_names(tree)) for module, tree in trees.items()}
    counts: Counter[str] = Counter()
    for each in by_module.values():
        counts.update(each)
    return [
        f"{module}.{node.name}"
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, Definition)
        and not node.decorator_list
        and not node.name.startswith("__")  # hooks of Python's
        and node.name not in outside
        and counts[node.name] == by_module[module][node.name]  # else it is used elsewhere
        and counts[node.name] == Counter(_names(node))[node.name]
    ]


@cache
@few_collections()
def _unused_here() -> tuple[str, ...]:
    """Of this package. Its trees are let go of: see test_docstrings."""
    trees = {name: ast.parse(path.read_text()) for name, path in MODULES.items()}
    return tuple(unused(trees, _outside()))


def test_what_is_defined_is_used_by_more_than_its_tests() -> None:
    found = [name for name in _unused_here() if name.split(".")[-1] not in FOR_TESTS]
    assert not found, "no one uses these: remove them, or say in FOR_TESTS why tests need them"


def test_the_list_of_exceptions_is_not_longer_than_it_has_to_be() -> None:
    found = {name.split(".")[-1] for name in _unused_here()}
    assert set(FOR_TESTS) <= found


def test_a_function_that_only_calls_itself_is_found_and_one_in_a_list_of_names_is_not() -> None:
    tree = ast.parse(
        "__all__ = ['kept']\ndef kept(): pass\ndef dead(n): return dead(n - 1)\n"
        "def called(): pass\nvalue = called()\n"
    )
    assert unused({"m": tree}, set()) == ["m.dead"]
    assert unused({"m": tree}, {"dead"}) == []
