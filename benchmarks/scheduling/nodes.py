"""Many nodes: GPT-3 on six servers (DiviML's case study) and models of up to 1T parameters."""

from __future__ import annotations

from benchmarks.scheduling.runner import Row, describe, run, zoo_case
from tvm_hetero.problem import Objective

# (network, platform): the case study first, then the paper's open question.
CASES = (
    ("gpt3-175b", "sched-6"), ("gpt3-175b", "diviml-6"), ("llama3-70b", "mixed-4"),
    ("llama3-405b", "mixed-16"), ("mixtral-8x7b", "mixed-16"), ("megatron-1t", "mixed-64"),
    ("deepseek-v3", "mixed-64"), ("kimi-k2", "mixed-64"),
)  # fmt: skip
# A gap for which auto is asked too, and times the time limit that it has.
_WORTH, _LONGER = 0.01, 12
ORDERINGS = ("none", "tasks", "time", "batches")


def rows(small: bool, time_limit: float) -> list[Row]:
    """count-dp on each case and objective, auto where it leaves a gap; then orderings compared."""
    result = []
    for name, platform in () if small else CASES:
        for kind in ("latency", "throughput"):
            problem = zoo_case(name, platform, Objective(kind))  # type: ignore[arg-type]
            row, _ = run(problem, "count-dp", time_limit)
            result.append(describe(problem, f"{name} on {platform}, {kind}") | row)
            if row["gap"] > _WORTH:
                row, _ = run(problem, "auto", _LONGER * time_limit)
                result.append(describe(problem, f"{name} on {platform}, {kind}") | row)
    small_case = zoo_case(
        "gpt3-175b", "diviml:3", Objective("throughput"), layers=4 if small else 12
    )
    for ordering in ORDERINGS:
        row, _ = run(small_case, "cpsat", min(time_limit, 20.0), symmetry=ordering)
        label = "gpt3, 12 layers, 3 servers"
        result.append(describe(small_case, label) | row | {"symmetry": ordering})
    return result
