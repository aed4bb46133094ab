"""Imports go down only, and the scheduling half never imports TVM (DESIGN)."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "tvm_hetero"

# What stands on or above the TVM line; everything else is the scheduling half.
ABOVE = {
    "cluster", "frontends", "kernels", "passes", "cost_models", "runtime", "relay", "relax", "cli",
    "partition", "targets", "tune", "__main__", "__init__",
}  # fmt: skip
HEAVY = {"tvm", "tvm_ffi", "onnx", "onnxruntime"}


def modules() -> dict[str, Path]:
    """Every module of the package, by its dotted name below ``tvm_hetero``."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        found[name] = path
    # rglob does not follow links into folders, and two packages are links.
    for linked in ("passes", "cost_models"):
        for path in sorted((ROOT / linked).glob("*.py")):
            found[f"{linked}.{path.stem}"] = path
    return found


MODULES = modules()
BELOW = {name: path for name, path in MODULES.items() if name.split(".")[0] not in ABOVE}


def imports(path: Path, *, anywhere: bool) -> set[str]:
    """Modules that a file imports; not `anywhere`: at import time alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes = list(ast.walk(tree)) if anywhere else _at_import_time(tree)
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
    return names


def _at_import_time(tree: ast.Module) -> list[ast.AST]:
    """The nodes outside of functions and of ``if TYPE_CHECKING``."""
    result: list[ast.AST] = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or typing_only:
            continue
        result.append(node)
        waiting.extend(ast.iter_child_nodes(node))
    return result


def test_there_is_something_to_check():
    assert {"graph", "problem", "check", "solvers.registry", "report.gantt"} <= BELOW.keys()
    assert {"passes.hetero_partition", "cost_models.profiled"} <= MODULES.keys()
    assert not {"passes.hetero_partition", "partition"} & BELOW.keys()


@pytest.mark.parametrize("name", sorted(BELOW))
def test_below_the_line_nothing_of_tvm_and_nothing_from_above(name):
    for module in imports(BELOW[name], anywhere=True):
        parts = module.split(".")
        assert parts[0] not in HEAVY, f"{name} imports {module}"
        if parts[0] == "tvm_hetero" and len(parts) > 1:
            assert parts[1] not in ABOVE, f"{name} imports {module}, which stands above it"


@pytest.mark.parametrize("name", sorted(n for n in MODULES if n.startswith("solvers.")))
def test_solvers_do_not_use_the_judge_and_the_judge_uses_no_solver(name):
    used = imports(MODULES[name], anywhere=True)
    # These hand answers to the judge.
    if name not in {"solvers.registry", "solvers.guard", "solvers.settle"}:
        assert not {"tvm_hetero.check", "tvm_hetero.rules", "tvm_hetero.case"} & used
    for judge in ("check", "rules", "case", "memory", "objective", "simulate"):
        assert not any("solvers" in m for m in imports(MODULES[judge], anywhere=True))


@pytest.mark.parametrize(
    "name", sorted(n for n in BELOW if "." not in n and n not in {"solvers", "report"}),
)
def test_what_solvers_stand_on_knows_no_solver_and_no_report(name):
    for module in imports(MODULES[name], anywhere=True):
        assert not module.startswith(("tvm_hetero.solvers", "tvm_hetero.report")), module


@pytest.mark.parametrize("name", sorted(n for n in MODULES if n.startswith("passes.")))
def test_passes_know_no_solver_and_no_front_end(name):
    for module in imports(MODULES[name], anywhere=False):
        assert not module.startswith(("tvm_hetero.solvers", "tvm_hetero.frontends")), module


def test_importing_the_package_and_scheduling_import_no_tvm():
    code = (
        "import sys, tvm_hetero as th, tvm_hetero.cli.main\n"
        "th.Problem, th.Schedule, th.solve, th.check\n"
        "print(sorted({'tvm', 'onnx', 'onnxruntime'} & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
