"""Small models to be served: ``branchy.hetero`` and ``dense.hetero`` (batches of queries)."""

from __future__ import annotations

from pathlib import Path

from tests.models import branchy, dense, equal_cpus, lowered, random_schedule, unit_problem
from tvm_hetero.compiler.build import build
from tvm_hetero.passes.annotate_devices import annotate_devices


def build_tensor_models(home: Path) -> None:
    """Build both, adaptable, into a folder."""
    for name, module in (("branchy", branchy()), ("dense", dense(32, 64, 64, 10))):
        platform = equal_cpus()
        mod = lowered(module, platform)
        problem = unit_problem(mod, platform)
        placed = annotate_devices(mod, problem, random_schedule(problem, 1))
        build(placed, adaptable=True).save(home / f"{name}.hetero")
