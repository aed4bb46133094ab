"""What is to be scheduled, and what an answer means: graph, costs, objective, schedule."""

from __future__ import annotations

from tvm_hetero.problem.model import (
    IMPLEMENTATIONS,
    KINDS,
    MAX_BATCH,
    Cost,
    Kind,
    Objective,
    Problem,
    check_objective,
    check_sizes,
)

__all__ = ['IMPLEMENTATIONS', 'KINDS', 'MAX_BATCH', 'Cost', 'Kind', 'Objective', 'Problem',
'check_objective', 'check_sizes']
