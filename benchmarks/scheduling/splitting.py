"""What splitting gives: MILP-SPLIT beside the exact MILP and CP-SAT on the whole graph.

Each with the same start (the annealed schedule, which is what the quick ones begin from too) and
once with none, so that no factor is owed to a poor start of the other side.
"""

from __future__ import annotations

from benchmarks.scheduling.runner import Row, describe, run, zoo_case
from tvm_hetero.problem import Problem

# The MILP closes chains of small modules and little else; CP-SAT goes further.
MILP_CASES = (
    ("light-squeezenet", {}), ("resnet18", {}), ("resnet50", {}), ("resnet152", {}),
    ("module", {"tasks": 20}), ("gpt-24", {}), ("light-inception_v1", {}),
)  # fmt: skip
CPSAT_CASES = (
    ("light-inception_v1", {}), ("light-inception_v2", {}), ("inception-v3", {}),
    ("gpt-24", {}), ("gpt-96", {}),
)  # fmt: skip


def rows(small: bool, time_limit: float) -> list[Row]:
    """Split, then the whole, with and without a start."""
    milp = MILP_CASES[:1] if small else MILP_CASES
    cpsat = MILP_CASES[:1] if small else CPSAT_CASES
    found = []
    for whole, chosen in (("milp", milp), ("cpsat", cpsat)):
        for name, sizes in chosen:
            problem = zoo_case(name, "sched-nvl", **sizes)
            label = " ".join([name, *(f"{k}={v}" for k, v in sizes.items())])
            found += _compare(problem, label, whole, time_limit)
    return found


def _compare(problem: Problem, label: str, whole: str, time_limit: float) -> list[Row]:
    backend = "highs" if whole == "milp" else "auto"
    found = []
    _, annealed = run(problem, "annealing", min(time_limit, 5.0))
    for solver in ("milp-split", whole):
        for start in (annealed, None):
            row, _ = run(problem, solver, time_limit, start=start, backend=backend)
            found.append(
                describe(problem, label) | row | {"against": whole, "started": start is not None}
            )
    return found
