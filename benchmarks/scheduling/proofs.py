"""Proofs: `auto` alone on CNNs and transformers with small modules, on machines of all kinds."""

from __future__ import annotations

from benchmarks.scheduling.runner import Row, describe, run, zoo_case
from tvm_hetero import zoo
from tvm_hetero.problem import Problem
from tvm_hetero.views.instance import Instance, instance_of
from tvm_hetero.views.modularity import modules_of

FAMILIES = (
    "light-", "inception-", "resnet", "densenet", "mobilenet", "vgg", "unet", "bert", "vit", "gpt-",
)  # fmt: skip
PLATFORMS = (
    "sched-nvl", "sched-pcie", "sched-node", "diviml", "phone", "big-little", "l4x4", "t4x4",
    "a100x8", "h100x8",
)  # fmt: skip
# Tasks of a module.
_MOST = 30


def rows(small: bool, time_limit: float, only: str = "") -> list[Row]:
    """A row for each case that has `only` in its name."""
    networks = [name for name in zoo.names() if name.startswith(FAMILIES)]
    pairs = [(name, platform) for platform in PLATFORMS for name in networks]
    result = []
    for name, platform in [("resnet18", "diviml")] if small else pairs:
        case = f"{name} on {platform}"
        problem = zoo_case(name, platform)
        if only in case and largest_module(problem) <= _MOST:
            row, _ = run(problem, "auto", time_limit)
            binds = any(instance_of(problem).memory_binds)
            result.append(describe(problem, case) | {"memory_binds": binds} | row)
    return result


def largest_module(problem: Problem) -> int:
    """Tasks of the largest module."""
    return max(len(module.parts) for module in modules_of(Instance(problem)))
