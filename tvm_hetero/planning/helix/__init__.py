"""Layers of one model shared by many nodes, after Helix (Y. Mei et al., arXiv 2406.01566).

>>> from tvm_hetero.planning import helix
>>> from tvm_hetero.solvers import Options
>>> problem = helix.load_layer_flow("problem.yaml")
>>> answer = helix.solve_layer_flow(problem, Options(time_limit=10.0))
>>> answer.value, answer.proven
(320.0, True)

The files, in the order in which a problem meets them: `problem` (notation), `format`,
`price_bound`, `cover_search`, `link_search`, `exact`, `solve`; and `judge`, which shares nothing
with them.
"""

from __future__ import annotations

from tvm_hetero.planning.helix.format import (
    layout_document,
    load_layer_flow,
    parse_layer_flow,
    parse_layer_layout,
)
from tvm_hetero.planning.helix.judge import judge
from tvm_hetero.planning.helix.solve import LayerFlowAnswer, judge_layout, solve_layer_flow

__all__ = [
    "LayerFlowAnswer", "judge", "judge_layout", "layout_document", "load_layer_flow",
    "parse_layer_flow", "parse_layer_layout", "solve_layer_flow",
]  # fmt: skip
