"""What docstrings, comments and docs name in backticks is there, and is called that.

Single backticks refer: to something of the package or, where another project is meant, to what
`ELSEWHERE` lists. Double ones quote. Nothing is imported: files are parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.test_docs import PAGES
from tests.test_floors import MODULES, room_of
from tvm_hetero.util.few_collections import few_collections

# What is no name of ours, though its first or last part is one.
ELSEWHERE = {
    "config.pbtxt": "a file of Triton's",
    "core.available_devices": "OpenVINO's",
    "hetero.kernel": "an attribute of kernels",
    "hetero.values": "an attribute of kernels",
    "image.resize2d": "an operator of Relay's",
    "objective.contiguous": "a key of the document of a problem",
    "objective.kind": "a key of the document of a problem",
    "model.executor": "an attribute of what the page's example built",
    "relax.const": "TVM's",
    "relay.save_param_dict": "TVM's, when it had Relay",
    "relay.testing": "TVM's, when it had Relay",
    "relay.testing.lstm": "TVM's, when it had Relay",
    "relay.variance": "TVM's, when it had Relay",
    "torch.addmm": "PyTorch's",
    "torch.where": "PyTorch's",
    "request.profiling_info": "OpenVINO's",
    "request.wait": "OpenVINO's",
    "tvm.tirx.build": "TVM's",
    "tvm_ffi.libinfo": "TVM's",
    "tvm_hetero.choices": "an attribute of modules",
    "value.L.S": "an input of a decoder: layer L, stream S",
}
# Single words in backticks that are not in our code.
WORDS = {
    "BF16ComputeLegalize": "a pass of TVM's",
    "PassTimingInstrument": "TVM's",
    "guide": "a value of `Keeps`",
    "interleave_search": "a parameter of CP-SAT",
}
EXTENSIONS = {"bin", "html", "json", "h", "md", "onnx", "py", "so", "yaml"}
_REFERENCE = re.compile(r"(?<!`)`([A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?`(?!`)")
_COMMENT = re.compile(r"(?:^|\s)# (.*)$", re.M)
_PACKAGE = "__init__"


class Text(NamedTuple):
    """A docstring or comments of a module (empty: of a page), and the parameters known there."""

    module: str
    text: str
    given: frozenset[str]

    def references(self) -> list[tuple[str, ...]]:
        """The names in single backticks, in parts; not those of parameters or files."""
        names = [tuple(name.split(".")) for name in _REFERENCE.findall(self.text)]
        return [n for n in names if n[0] not in self.given and n[-1] not in EXTENSIONS]


@pytest.fixture(scope="module", autouse=True)
def _forget() -> Iterator[None]:
    """The package's trees are some million objects, at each of which Python's garbage collection
    would look again and again: here seldom, and during the tests of other files not at all."""
    with few_collections():
        yield
    for each in (tree, contents, classes, words, members, texts):
        each.cache_clear()


# ---------------------------------------------------------------------------- what is there


@cache
def tree(module: str) -> ast.Module:
    """A module, parsed."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


@cache
def places() -> dict[tuple[str, ...], list[str]]:
    """Modules and packages by all ends of their full names."""
    found: dict[tuple[str, ...], list[str]] = {}
    for module in MODULES:
        parts = tuple(p for p in ("tvm_hetero", *module.split(".")) if p != _PACKAGE)
        for first in range(len(parts)):
            found.setdefault(parts[first:], []).append(module)
    return found


def defined(body: list[ast.stmt]) -> dict[str, ast.stmt]:
    """What statements define, assign or import, by name; those within `if` and `try` too."""
    found: dict[str, ast.stmt] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(a.asname or a.name).split(".")[0]: node for a in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            found |= {n.id: node for n in ast.walk(node) if isinstance(n, ast.Name)
                      and isinstance(n.ctx, ast.Store)}  # fmt: skip
        else:
            within = [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
            found |= defined(within) if within else {}
    return found


@cache
def contents(module: str) -> dict[str, ast.stmt]:
    """What stands at the top of a module."""
    return defined(tree(module).body)


@cache
def classes() -> dict[str, ast.ClassDef]:
    """All classes by name, of which no two are the same (tests/test_names.py)."""
    nodes = (node for module in MODULES for node in ast.walk(tree(module)))
    return {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}


@cache
def words() -> frozenset[str]:
    """Every name in the package's code."""
    found = {part for names in places() for part in names}
    for node in (node for module in MODULES for node in ast.walk(tree(module))):
        for field in ("name", "id", "attr", "arg", "asname", "module"):
            value = getattr(node, field, None)
            found |= set(value.split(".")) if isinstance(value, str) else set()
    return frozenset(found)


@cache
def members(node: ast.ClassDef) -> frozenset[str]:
    """What a class itself defines or sets."""
    written = {child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)}
    return frozenset(written | defined(node.body).keys())


def has_member(node: ast.ClassDef, name: str) -> bool:
    """Whether a class, or a base of its own of ours, defines or sets an attribute."""
    if name in members(node):
        return True
    bases = {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}
    return any(has_member(classes()[b], name) for b in bases if b in classes() and b != node.name)


def holds(module: str, rest: tuple[str, ...]) -> bool:
    """Whether a module has such a thing, or a class with such a member."""
    if not rest:
        return True
    node = contents(module).get(rest[0])
    if isinstance(node, ast.ClassDef):
        return len(rest) == 1 or has_member(node, rest[1])
    return node is not None and (len(rest) == 1 or not isinstance(node, ast.FunctionDef))


def is_ours(text: Text, parts: tuple[str, ...]) -> bool:
    """Whether a dotted name begins as one of ours or, in the package, ends as one."""
    ends = parts[:1] if not text.module else (parts[0], parts[-1])
    return len(parts) > 1 and any((end,) in places() or end in classes() for end in ends)


def resolves(parts: tuple[str, ...], room: str = "") -> bool:
    """Whether a reference leads somewhere, from a room or from anywhere."""
    if parts[0] in classes() and len(parts) > 1 and has_member(classes()[parts[0]], parts[1]):
        return True
    for length in range(len(parts), 0, -1):
        modules = places().get(parts[:length], [])
        # Where the room has a module of that name, that one is meant.
        near = [module for module in modules if room_of(module) == room] or modules
        if any(holds(module, parts[length:]) for module in near):
            return True
    return False


# ------------------------------------------------------------------------------- what is said


@cache
def texts() -> tuple[Text, ...]:
    """All docstrings, each module's comments, and the pages."""
    return tuple(_read_texts())


def _read_texts() -> Iterator[Text]:
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for module, path in MODULES.items():
        for node in ast.walk(tree(module)):
            if isinstance(node, documented) and (said := ast.get_docstring(node)):
                yield Text(module, said, _parameters(node))
        comments = _COMMENT.findall(path.read_text(encoding="utf-8"))
        yield Text(module, "\n".join(comments), frozenset())
    for name, page in PAGES.items():
        if name.startswith("docs/"):
            yield Text("", page, frozenset())


def _parameters(node: ast.AST) -> frozenset[str]:
    """Of a function, and of those inside it."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return frozenset()
    return frozenset(a.arg for a in ast.walk(node) if isinstance(a, ast.arg))


def test_what_a_text_names_by_its_module_or_class_is_there() -> None:
    lost, seen = set(), 0
    for text in texts():
        room = room_of(text.module) if text.module else ""
        for parts in text.references():
            if is_ours(text, parts):
                seen += 1
                if not resolves(parts, room) and ".".join(parts) not in ELSEWHERE:
                    lost.add((text.module, ".".join(parts)))
    assert seen > 400
    assert sorted(lost) == []


def test_a_single_name_in_backticks_is_in_the_packages_code() -> None:
    known = words() | WORDS.keys()
    lost = {
        (text.module, parts[0])
        for text in texts()
        for parts in text.references()
        if text.module and len(parts) == 1 and parts[0] not in known
    }
    assert sorted(lost) == []


def test_the_lists_of_exceptions_are_not_longer_than_they_have_to_be() -> None:
    said = {".".join(parts) for text in texts() for parts in text.references()}
    assert sorted((ELSEWHERE.keys() | WORDS.keys()) - said) == []
    assert [name for name in ELSEWHERE if resolves(tuple(name.split(".")))] == []
    assert sorted(WORDS.keys() & words()) == []


def test_a_name_from_before_a_renaming_is_found() -> None:
    assert resolves(("timing", "TimedPlan"), "solvers")
    assert not resolves(("timing", "Plan"), "solvers")
    assert not resolves(("runtime", "batches"), "executor")
    assert is_ours(Text("executor.inputs", "", frozenset()), ("runtime", "batches"))
    assert resolves(("chain_table", "TableChain", "close"))
    assert not resolves(("chain_table", "TableChain", "shut"))
    assert "_schedule_reduction" in words() and "_unroll_window" not in words()
