"""The folders of src/ include each other downwards only, and there is no ring anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SOURCES, HEADERS = ROOT / "src", ROOT / "include" / "tvm_hetero"

# Each folder of src/ and its floor: a file includes what is in its own folder or stands lower.
FLOORS = {"support": 0, "plan": 1, "memory": 2, "executor": 3, "artifact": 4, "module.cc": 5}

# The schedulers' search is a library of its own, beside all these.
SEARCH = "search"

# The folder of src/ that implements a public header.
IMPLEMENTED_IN = {
    "export.h": "support",
    "plan.h": "plan",
    "executor.h": "executor",
    "artifact.h": "artifact", "model.h": "artifact",
    "npy.h": "artifact", "safetensors.h": "artifact",
    "search.h": SEARCH, "stage_reach.h": SEARCH, "streams.h": SEARCH,
}  # fmt: skip

_INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<(tvm_hetero/[^>]+)>)', re.MULTILINE)


def includes(path: Path) -> list[str]:
    """What a file includes of ours, as it is written there."""
    found = _INCLUDE.findall(path.read_text(encoding="utf-8"))
    return [quoted or public for quoted, public in found]


def files() -> dict[str, Path]:
    """All of our C++ by the name under which it is included, tests and examples left out."""
    inside = {path.relative_to(SOURCES).as_posix(): path for path in SOURCES.rglob("*.*")}
    public = {f"tvm_hetero/{path.name}": path for path in HEADERS.glob("*.h")}
    return {**inside, **public}


FILES = files()


def room_of(name: str) -> str:
    """The folder of a file in src/, or the one that a public header belongs to."""
    first, _, rest = name.partition("/")
    return IMPLEMENTED_IN[rest] if first == "tvm_hetero" else first


def arrows() -> Iterator[tuple[str, str]]:
    """Each include of one of our files in another."""
    for name, path in FILES.items():
        for included in includes(path):
            # A public header may name one beside it, as programs outside of the tree find them.
            is_beside = name.startswith("tvm_hetero/") and "/" not in included
            yield name, f"tvm_hetero/{included}" if is_beside else included


ARROWS = sorted(set(arrows()))


def ring(edges: set[tuple[str, str]]) -> list[str]:
    """The members of a ring of edges; empty if there is none."""
    graph: dict[str, set[str]] = {}
    for start, end in edges:
        graph.setdefault(start, set()).add(end)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def unit_of(name: str) -> str:
    """A header and the file that implements it are one: memory/workspace."""
    return name.rpartition(".")[0]


def test_there_is_something_to_check() -> None:
    rooms = {room_of(name) for name in FILES}
    assert rooms == {*FLOORS, SEARCH}
    assert ("executor/worker.h", "executor/state.h") in ARROWS
    assert ("artifact/artifact.cc", "tvm_hetero/artifact.h") in ARROWS
    assert ("tvm_hetero/executor.h", "tvm_hetero/plan.h") in ARROWS
    assert len(ARROWS) > 150


def test_only_the_entry_for_other_languages_lies_loose() -> None:
    loose = [path.name for path in SOURCES.iterdir() if path.is_file()]
    assert loose == ["module.cc"]


def test_what_is_included_is_named_by_its_folder_and_is_there() -> None:
    missing = [f"{name} includes {included}" for name, included in ARROWS if included not in FILES]
    assert not missing


@pytest.mark.parametrize("room", FLOORS)
def test_a_folder_includes_only_what_stands_below_it(room: str) -> None:
    below = {other for other, floor in FLOORS.items() if floor < FLOORS[room]}
    climbing = [
        f"{name} includes {included}"
        for name, included in ARROWS
        if room_of(name) == room and room_of(included) not in {room, *below}
    ]
    assert not climbing


def test_the_search_and_the_executor_do_not_know_each_other() -> None:
    crossing = [
        f"{name} includes {included}"
        for name, included in ARROWS
        if (room_of(name) == SEARCH) != (room_of(included) == SEARCH)
    ]
    assert not crossing


def test_folders_make_no_ring() -> None:
    edges = {(room_of(name), room_of(included)) for name, included in ARROWS}
    assert not ring({(start, end) for start, end in edges if start != end})


def test_files_make_no_ring() -> None:
    assert not ring({(name, included) for name, included in ARROWS if name != included})


def test_headers_and_what_implements_them_make_no_ring() -> None:
    edges = {(unit_of(name), unit_of(included)) for name, included in ARROWS}
    assert not ring({(start, end) for start, end in edges if start != end})


def test_a_header_is_guarded_by_its_path() -> None:
    for name, path in FILES.items():
        if path.suffix != ".h" or path.parent == HEADERS:
            continue
        guard = "TVM_HETERO_" + re.sub(r"\W", "_", name).upper() + "_"
        text = path.read_text(encoding="utf-8")
        assert f"#ifndef {guard}\n#define {guard}\n" in text, name


def test_a_ring_is_found() -> None:
    assert set(ring({("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")})) == {"a", "b", "c"}
    assert not ring({("a", "b"), ("a", "c"), ("b", "c")})
