"""Latency where the weights do not fit the device that would run everything fastest."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.scheduling.runner import Row, describe, run, zoo_case
from tvm_hetero.problem import Problem

NETWORKS = ("light-resnet50", "light-inception_v1", "gpt-24")
SHARES = (0.75, 0.5, 0.25)
ALGORITHMS = ("heft", "auto")


def limited(problem: Problem, share: float) -> Problem:
    """The problem with every device but the first (the host) held to a share of all weights."""
    weights = sum(task.weight_bytes for task in problem.tasks)
    devices = [
        device if i == 0 else replace(device, memory=int(share * weights))
        for i, device in enumerate(problem.platform.devices)
    ]
    platform = replace(problem.platform, devices=tuple(devices))
    return replace(problem, platform=platform)


def rows(small: bool, time_limit: float) -> list[Row]:
    """A row for each algorithm on each network and share; GPT-3 on six servers last."""
    networks = NETWORKS[:1] if small else NETWORKS
    shares = SHARES[1:2] if small else SHARES
    cases = [
        (f"{name}, {share:.0%} of the weights fit".replace("%", " %"),
         limited(zoo_case(name, "sched-nvl"), share))
        for name in networks
        for share in shares
    ]  # fmt: skip
    if not small:
        cases.append(("gpt3-175b on six servers", zoo_case("gpt3-175b", "sched-6")))
    result = []
    for name, problem in cases:
        for algorithm in ALGORITHMS:
            row, _ = run(problem, algorithm, time_limit)
            result.append(describe(problem, name) | row)
    return result
