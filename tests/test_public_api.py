"""What users may rely on, as a file: `tests/data/public_api.txt` lists names and signatures.

A change of the public API has to change that file, where a reviewer sees it:

    python -m tests.test_public_api > tests/data/public_api.txt
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import get_origin

import tvm_hetero

LIST = Path(__file__).parent / "data" / "public_api.txt"
# Beside `tvm_hetero` itself, where everything is that `_HOME` names.
PACKAGES = (
    "tvm_hetero.check", "tvm_hetero.cost_models", "tvm_hetero.planning", "tvm_hetero.platform",
    "tvm_hetero.problem", "tvm_hetero.relax.frontend", "tvm_hetero.relax.transform",
    "tvm_hetero.solvers", "tvm_hetero.zoo",
)  # fmt: skip


def described() -> Iterator[str]:
    """A line for each public name, and for each public member of a class."""
    for name in sorted(tvm_hetero._HOME):
        yield from _lines(f"tvm_hetero.{name}", getattr(tvm_hetero, name))
    for package in PACKAGES:
        module = importlib.import_module(package)
        names = getattr(module, "__all__", None) or [n for n in vars(module) if n[0] != "_"]
        for name in sorted(names):
            yield from _lines(f"{package}.{name}", getattr(module, name))


def _lines(name: str, value: object) -> Iterator[str]:
    if isinstance(value, ModuleType) or name.rpartition(".")[2] == "annotations":
        return
    if not inspect.isclass(value):
        yield f"{name}{_signature(value)}"
        return
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    yield f"class {name}({bases})"
    if not issubclass(value, Exception | Enum):
        yield f"{name}.__init__{_signature(value)}"
    if dataclasses.is_dataclass(value):
        yield f"{name}: fields {', '.join(field.name for field in dataclasses.fields(value))}"
    for member, inner in sorted(vars(value).items()):
        if member.startswith("_"):
            continue
        if isinstance(inner, property):
            yield f"{name}.{member}: property"
        elif callable(inner) or isinstance(inner, classmethod | staticmethod):
            yield f"{name}.{member}{_signature(getattr(value, member))}"


def _signature(value: object) -> str:
    if get_origin(value) is not None:
        return "(...)"  # an alias of a type: Python 3.13 gives it a signature that says nothing
    try:
        shown = str(inspect.signature(value)) if callable(value) else f" = {type(value).__name__}"
        # Where a function lies in memory is another in every run.
        return re.sub(r"(<function \w+) at 0x[0-9a-f]+>", r"\1>", shown)
    except (TypeError, ValueError):
        return "(...)"


def test_the_public_api_is_the_one_of_the_list() -> None:
    found, listed = set(described()), set(LIST.read_text(encoding="utf-8").splitlines())
    gone, new = sorted(listed - found), sorted(found - listed)
    assert (gone, new) == ([], []), "if it is meant: python -m tests.test_public_api > the list"


def test_all_public_names_are_known_to_type_checkers() -> None:
    text = Path(tvm_hetero.__file__).read_text(encoding="utf-8")
    for name in tvm_hetero._HOME:
        assert f"import {name} as {name}\n" in text, f"{name} is Any to who checks types"


if __name__ == "__main__":
    print("\n".join(described()))
