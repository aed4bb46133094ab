"""The house: each room has a floor, and imports go down only.

A room is a folder of the package (of `frontends/`, each of its folders), or a file that lies beside
the folders. A wing is a folder inside a room; files at the room's own root are its top wing. What
holds, imports inside functions included:

1. a room imports from rooms on lower floors only, so there is no ring between rooms;
2. a wing imports from wings below it only;
3. there is no ring between files (imports for type checkers alone do not count here);
4. what stands below the TVM line imports neither TVM nor what else is heavy.

``python -m tests.test_floors`` prints rooms with their floors, arrows and rings.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent

# Room -> floor.
FLOORS = {
    "errors": 1,
    "libinfo": 2, "util": 2,
    "generation": 3, "plan": 3, "platform": 3,
    "devices": 4, "problem": 4, "processes": 4,
    "artifact": 5, "check": 5, "kernels": 5, "rpc_devices": 5, "views": 5, "zoo": 5,
    "bounds": 6, "executor": 6, "passes": 6,
    "frontends.huggingface": 7, "frontends.onnx": 7, "frontends.relay": 7, "solvers": 7,
    "compiler": 8, "frontends.torch": 8, "planning": 8,
    "cost_models": 9, "report": 9,
    "doctor": 10, "pipeline": 10,
    "online": 11, "sizes": 11,
    "decoders": 12, "relax": 12,
    "cluster": 13, "relay": 13, "serve": 13,
    "cli": 14,
    "__init__": 15, "__main__": 15,
}  # fmt: skip

# Room -> its wings from the bottom up; those on one line do not import each other. The files at
# the root of a room are above all of its wings unless they are named: "" is the root's own.
WINGS: dict[str, tuple[tuple[str, ...], ...]] = {
    "bounds": (("core",), ("latency", "memory", "throughput"), ("",)),
    "cli": (("shared",), ("verbs",), ("",)),
    "cluster": (("parts",), ("transport",), ("",)),
    "cost_models": (
        ("protocol", "store"), ("links", "kernels_alone"), ("in_network", "tuning"), ("",),
    ),
    "frontends.huggingface": (("",), ("encoders",)),
    "frontends.onnx": (
        ("model",), ("conversion", "expansion"), ("quantized",), ("microsoft",), ("",),
        ("post_training",),
    ),
    "frontends.relay": (("core",), ("json_reader", "operators"), ("text_reader",), ("",)),
    "kernels": (
        ("tir",), ("indexing",), ("cpu",),
        ("attention", "convolution.winograd", "gather_scatter", "matmul", "ordered", "rowwise"),
        ("convolution", "quantized", "recurrent"), ("rules",), ("tuning",), ("",),
    ),
    "online": (("",), ("policies", "record"), ("live",), ("comparison",)),
    "pipeline": (("precision",), ("",)),
    "planning": (("helix", "power"), ("",), ("choosing",), ("sharing",)),
    "report": (("", "schedule"), ("explorer",), ("online", "planning", "run")),
    "serve": (
        ("core",), ("scheduling",), ("scheduling.policies",), ("text",), ("models",),
        ("metrics", "traces"), ("http",),
        ("admin", "oip", "openai", "page"), ("",), ("load_test",),
    ),
    "solvers": (
        ("core",), ("timing",), ("native",), ("stage_dp",), ("lists",),
        ("counting", "cpsat", "exhaustive", "milp", "search"), ("stages",), ("throughput",),
        ("memory",), ("milp_split",), ("", "batches"), ("robust", "reductions"),
    ),
}  # fmt: skip

# The scheduling half: it works where TVM is not installed.
BELOW_TVM = {
    "errors", "libinfo", "util", "generation", "plan", "platform", "problem", "processes",
    "artifact", "check", "views", "zoo", "bounds", "solvers", "planning", "report",
}  # fmt: skip
HEAVY = {"tvm", "tvm_ffi", "onnx", "onnxruntime", "torch", "transformers", "ray"}

Graph = Mapping[str, set[str]]


class Import(NamedTuple):
    """One import: of which module, in which line, and for type checkers alone or not."""

    target: str
    line: int
    typing_only: bool


# ------------------------------------------------------------------------ what is there


def _files() -> Iterator[Path]:
    """All files of the package; two of its folders are links, which `os.walk` does not follow."""
    for base in ("tvm_hetero", "passes", "cost_models"):
        for folder, _, names in os.walk(ROOT / base):
            yield from (Path(folder) / name for name in sorted(names) if name.endswith(".py"))


def _module(path: Path) -> str:
    """``solvers.milp.model``; of a package ``solvers.milp.__init__``."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[1:] if parts[0] == "tvm_hetero" else parts)


# But for the one that installing writes.
MODULES = {_module(path): path for path in sorted(_files()) if path.name != "_version.py"}


def room_of(module: str) -> str:
    """The room in which a module stands."""
    parts = module.split(".")
    if parts[0] == "frontends" and len(parts) > 2:
        return ".".join(parts[:2])
    return parts[0]


def wing_of(module: str) -> str:
    """The wing of its room; empty for a file at the room's root."""
    return ".".join(module.split(".")[:-1]).removeprefix(room_of(module)).removeprefix(".")


@cache
def imports(module: str) -> tuple[Import, ...]:
    """All imports of a module from this package, wherever they stand in it."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    found: list[Import] = []
    for node, typing_only in _walk(tree, False):
        for name in _imported(node, module):
            target = _resolve(name)
            # What is imported by its package's name alone (`from tvm_hetero import __version__`)
            # is on no floor: it is loaded with whatever is.
            if target not in (None, "__init__"):
                found.append(Import(str(target), node.lineno, typing_only))
    return tuple(found)


def _walk(node: ast.AST, typing_only: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    """All import statements below a node, and whether they stand under ``if TYPE_CHECKING``."""
    body: list[ast.stmt] = []
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        body = node.body
    for child in ast.iter_child_nodes(node):
        unseen = typing_only or child in body
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, unseen
        yield from _walk(child, unseen)


def _imported(node: ast.Import | ast.ImportFrom, module: str) -> list[str]:
    """Full names; of ``from a import b``: ``a.b``, which may be a module or not."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = [node.module] if node.module else []
    if node.level:
        base = ["tvm_hetero", *module.split(".")[: -node.level], *base]
    return [".".join([*base, alias.name]) for alias in node.names]


def _resolve(name: str) -> str | None:
    """The module of ours that a full name is, or stands in."""
    first, _, short = name.partition(".")
    if first != "tvm_hetero":
        return None
    parts = short.split(".") if short else []
    for end in range(len(parts), 0, -1):
        head = ".".join(parts[:end])
        for found in (head, f"{head}.__init__"):
            if found in MODULES:
                return found
    return "__init__"


def foreign(module: str) -> set[str]:
    """The first names of all that a module imports from elsewhere."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    names = chain.from_iterable(_imported(node, module) for node, _ in _walk(tree, False))
    return {name.partition(".")[0] for name in names}


# ------------------------------------------------------------------------ graphs


def arrows(key: Callable[[str], str], *, typing: bool = True) -> dict[str, set[str]]:
    """Who imports whom, with modules folded by `key`."""
    graph: dict[str, set[str]] = {key(module): set() for module in MODULES}
    for module in MODULES:
        for found in imports(module):
            ends = key(module), key(found.target)
            if ends[0] != ends[1] and (typing or not found.typing_only):
                graph[ends[0]].add(ends[1])
    return graph


def rings(graph: Graph) -> list[list[str]]:
    """Sets of nodes that reach each other (strongly connected components of more than one)."""
    order: list[str] = []
    seen: set[str] = set()
    for start in sorted(graph):
        _visit(graph, start, seen, order)
    back: dict[str, set[str]] = {node: set() for node in graph}
    for node, targets in graph.items():
        for target in targets:
            back[target].add(node)
    found, seen = [], set()
    for start in reversed(order):
        component: list[str] = []
        _visit(back, start, seen, component)
        if len(component) > 1:
            found.append(sorted(component))
    return found


def _visit(graph: Graph, start: str, seen: set[str], done: list[str]) -> None:
    """Depth first from a node; nodes are added to `done` when all behind them are."""
    if start in seen:
        return
    seen.add(start)
    stack = [(start, iter(sorted(graph[start])))]
    while stack:
        node, targets = stack[-1]
        step = next((target for target in targets if target not in seen), None)
        if step is None:
            done.append(node)
            stack.pop()
        else:
            seen.add(step)
            stack.append((step, iter(sorted(graph[step]))))


def height_of(module: str) -> int | None:
    """How far up in its room a module's wing is; None in rooms without wings."""
    wings = WINGS.get(room_of(module))
    if wings is None:
        return None
    wing = wing_of(module)
    return next((i for i, level in enumerate(wings) if wing in level), None)


def wrong_arrows(module: str) -> list[str]:
    """The imports of a module that do not go down, each as a line to read."""
    found = []
    for line in imports(module):
        here, there = room_of(module), room_of(line.target)
        if here != there:
            down = FLOORS[there] < FLOORS[here]
        elif wing_of(module) == wing_of(line.target):
            down = True
        else:
            own, other = height_of(module), height_of(line.target)
            down = own is not None and other is not None and other < own
        if not down:
            found.append(f"{MODULES[module].relative_to(ROOT)}:{line.line} imports {line.target}")
    return found


# ------------------------------------------------------------------------ tests


def test_there_is_something_to_check() -> None:
    assert len(MODULES) > 500
    assert {"solvers.milp.model", "passes.annotate_devices", "cost_models.store"} & MODULES.keys()
    assert {found.target for found in imports("executor.executor")} >= {"artifact.executable"}
    assert rings({"a": {"b"}, "b": {"a", "c"}, "c": set()}) == [["a", "b"]]


def test_each_room_has_a_floor_and_there_are_fewer_than_forty() -> None:
    rooms = {room_of(module) for module in MODULES} - {"frontends"}
    assert rooms - FLOORS.keys() == set(), "give the new room a floor in FLOORS"
    assert FLOORS.keys() == rooms, "a room that is gone"
    assert len(FLOORS) < 40


def test_each_wing_has_its_place() -> None:
    for room in {room_of(module) for module in MODULES}:
        wings = {wing_of(module) for module in MODULES if room_of(module) == room}
        if len(wings) > 1:
            assert wings <= {"", *chain.from_iterable(WINGS.get(room, ()))}, room


@pytest.mark.parametrize("room", sorted(FLOORS))
def test_imports_go_down_only(room: str) -> None:
    modules = [module for module in MODULES if room_of(module) == room]
    assert [line for module in modules for line in wrong_arrows(module)] == []


def test_no_ring_between_rooms_nor_between_files() -> None:
    assert rings(arrows(room_of)) == []
    assert rings(arrows(str, typing=False)) == []


@pytest.mark.parametrize("room", sorted(BELOW_TVM))
def test_below_the_line_nothing_of_tvm(room: str) -> None:
    for module in MODULES:
        if room_of(module) == room:
            assert not foreign(module) & HEAVY, module


def closure(module: str) -> set[str]:
    """All modules that a module may load, and what their packages load."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            parts = found.split(".")
            packages = {".".join([*parts[:i], "__init__"]) for i in range(1, len(parts))}
            waiting += [line.target for line in imports(found) if not line.typing_only]
            waiting += sorted(packages & MODULES.keys())
    return seen


def test_what_runs_an_artifact_needs_no_compiler() -> None:
    """No kernel, pass, solver or cost model is loaded to load and run an artifact."""
    above = {"kernels", "passes", "compiler", "solvers", "cost_models", "pipeline", "report"}
    needed = closure("executor.executor") | closure("artifact.read")
    assert {module for module in needed if room_of(module) in above} == set()
    assert len(needed) < 85


def test_importing_the_package_and_scheduling_import_no_tvm() -> None:
    code = (
        "import sys, tvm_hetero as th, tvm_hetero.cli.main\n"
        "th.Problem, th.Schedule, th.solve, th.check\n"
        "print(sorted({'tvm', 'onnx', 'onnxruntime'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


# ------------------------------------------------------------------------ to look at


def main() -> None:
    """Print the house from the top floor down."""
    graph = arrows(room_of)
    sizes = {room: sum(room_of(module) == room for module in MODULES) for room in FLOORS}
    for floor in sorted(set(FLOORS.values()), reverse=True):
        for room in sorted(room for room, level in FLOORS.items() if level == floor):
            below = ", ".join(sorted(graph.get(room, ()), key=lambda r: (-FLOORS.get(r, 0), r)))
            print(f"{floor:3} {room:22} {sizes[room]:4} files  -> {below or '-'}")
    wrong = [line for module in MODULES for line in wrong_arrows(module)]
    print(f"rooms {len(FLOORS)}, floors {len(set(FLOORS.values()))}, ", end="")
    print(f"arrows {sum(map(len, graph.values()))}, arrows up {len(wrong)}, ", end="")
    print(f"rings of rooms {len(rings(graph))}, ", end="")
    print(f"rings of files {len(rings(arrows(str, typing=False)))}")
    print("\n".join(wrong))


if __name__ == "__main__":
    main()
