"""What barriers at articulations cost the bound of a divided batch: next to nothing.

    python -m benchmarks.batch_barriers light-inception_v1 sched-nvl 16

For every articulation a the precedence program (`bounds.latency.precedence`, with load cuts) bounds
all elements up to a and, for itself, all that follows. If all of them had to pass a before anything
behind it began, the sum of the two would be a bound. Where that is about the bound of the whole,
the program already has a solution with barriers: in each part all devices are busy at their best
work from first to last, which no schedule can do (docs/method/divided-batches.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

from benchmarks.scheduling.runner import zoo_case
from tvm_hetero.bounds.latency.critical_path import articulations, limit_of, path_of
from tvm_hetero.bounds.latency.precedence import PrecedenceModel
from tvm_hetero.bounds.latency.subgraph import Subgraph
from tvm_hetero.problem import Objective
from tvm_hetero.util.text_tables import format_table
from tvm_hetero.views.arrays import Figures, figures_of
from tvm_hetero.views.instance import Instance

# Rounds of load cuts, four to a call; on the problems of the suite more raise nothing.
_CALLS = 3
# Tasks that a part has at least: less is no barrier that anybody waits at.
_FEW = 6


def bound_part(figures: Figures, first: int, last: int, limit: float) -> float:
    """The program's bound for all elements of tasks `first` to `last`, by themselves, s."""
    tasks = np.arange(first, last + 1)
    edges = np.flatnonzero((figures.src >= first) & (figures.dst <= last))
    part = Subgraph.of(figures, tasks, edges, figures.least[tasks], figures.rate[tasks])
    model = PrecedenceModel(part, limit, limit / 8).build()
    return max(model.bound() for _ in range(_CALLS))


def barriers(figures: Figures) -> tuple[float, list[tuple[int, float, float]]]:
    """The bound of the whole; for articulations the bounds of what lies before and behind, s."""
    limit, last = limit_of(figures, path_of(figures)), len(figures) - 1
    rows: list[tuple[int, float, float]] = []
    for a in articulations(figures):
        if a >= (rows[-1][0] if rows else 0) + _FEW and a <= last - _FEW:
            before = bound_part(figures, 0, a, limit)
            rows.append((a, before, bound_part(figures, a + 1, last, limit)))
    return bound_part(figures, 0, last, limit), rows


def main(arguments: Sequence[str] | None = None) -> float:
    """Print the table; the largest sum in parts of the bound of the whole."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("network")
    parser.add_argument("platform")
    parser.add_argument("batch", type=int)
    args = parser.parse_args(arguments)
    problem = zoo_case(args.network, args.platform, Objective("latency", args.batch))
    instance = Instance(problem)
    whole, rows = barriers(figures_of(instance))
    headers = ("articulation", "before, ms", "behind, ms", "sum over the whole")
    print(f"whole: {whole * 1e3:.4f} ms")
    print(
        format_table(
            headers,
            (
                (
                    instance.tasks[instance.order[a]],
                    f"{before * 1e3:.4f}",
                    f"{behind * 1e3:.4f}",
                    f"{(before + behind) / whole:.4f}",
                )
                for a, before, behind in rows
            ),
        )
    )
    return max((before + behind) / whole for _, before, behind in rows)


if __name__ == "__main__":
    main()
