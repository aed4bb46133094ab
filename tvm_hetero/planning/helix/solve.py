"""The best layout that is found in a time, what it is worth, and what no layout surpasses.

1. Nodes that hold less than all layers together: infeasible, which is its own proof.
2. `price_bound`, which knows nothing of links.
3. `cover_search`. Where links never bind and inference may be partial, it is all of the search.
4. `link_search`, where they bind or nodes have to meet at boundaries.
5. `exact`, where the problem is small: it proves what the bound leaves open, or finds better.

The value is the judge's (`judge`), of whatever layout was found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tvm_hetero.errors import InfeasibleError, SolverError
from tvm_hetero.planning.helix.cover_search import MoveBudget, search_covers
from tvm_hetero.planning.helix.exact import MOST_FLOWS, flow_count, solve_exactly
from tvm_hetero.planning.helix.judge import LayerFlow, judge
from tvm_hetero.planning.helix.link_search import search_links
from tvm_hetero.planning.helix.price_bound import price_bound
from tvm_hetero.planning.helix.problem import LayerFlowProblem, Layout
from tvm_hetero.problem.schedule import OPTIMAL_GAP
from tvm_hetero.solvers.core.options import Options

# Work that is granted a second, so that a run on an idle machine can be repeated. On one core of a
# shared machine 150,000 to 300,000 moves and 4,000 to 5,500 flows of 24 nodes were done.
_MOVES_A_SECOND = 200_000
_FLOWS_A_SECOND = 120_000
# Shares of the time for covers where links bind, and for all searches where the problem is small.
_COVERS = 0.1
_SEARCHES = 0.1


@dataclass(frozen=True)
class LayerFlowAnswer:
    """A layout and how good it is.

    Attributes
    ----------
    flow : tokens a second through the layout, and over which links.
    bound : tokens a second that no layout surpasses.
    seconds : wall time that it took.
    """

    problem: LayerFlowProblem
    layout: Layout
    flow: LayerFlow
    bound: float
    seconds: float

    @property
    def value(self) -> float:
        """Tokens a second."""
        return self.flow.value

    @property
    def gap(self) -> float:
        """What the value may lack at most, as a share of the bound."""
        return max(0.0, 1 - self.value / self.bound) if self.bound > 0 else 0.0

    @property
    def proven(self) -> bool:
        """Whether no layout is better, but for rounding."""
        return self.gap <= OPTIMAL_GAP


def solve_layer_flow(problem: LayerFlowProblem, options: Options) -> LayerFlowAnswer:
    """The best layout within a time limit, with a proven bound (see the head of this file).

    Of the options, `time_limit`, `deadline`, `seed`, `gap` and `clock` count.

    Raises
    ------
    InfeasibleError
        If the nodes cannot hold all layers together.
    """
    began = options.clock()
    _check_fit(problem)

    def until(share: float) -> bool:
        return options.clock() - began > share * options.wall_limit

    bound = price_bound(problem, lambda: until(0.5))
    small = flow_count(problem) <= MOST_FLOWS
    layout = _search(problem, bound, options, _SEARCHES if small else 0.95, until)
    flow = judge(problem, layout)
    if small and flow.value < bound * (1 - max(options.gap, OPTIMAL_GAP)):
        layout, bound = _prove(problem, layout, bound, options, began)
        flow = judge(problem, layout)
    bound = max(bound, flow.value)
    return LayerFlowAnswer(problem, layout, flow, bound, options.clock() - began)


def judge_layout(problem: LayerFlowProblem, layout: Layout) -> LayerFlowAnswer:
    """A layout that is given, with its flow and the bound for all.

    Raises
    ------
    UsageError
        If it is no layout of this problem.
    """
    flow = judge(problem, layout)
    return LayerFlowAnswer(problem, layout, flow, max(flow.value, price_bound(problem)), 0.0)


def _check_fit(problem: LayerFlowProblem) -> None:
    most = sum(len(node.rates) for node in problem.nodes)
    if most < problem.layers:
        raise InfeasibleError(
            f"{problem.name}: {len(problem.nodes)} nodes hold at most {most} layers together, "
            f"expected room for {problem.layers}; add nodes, or memory (longer tables)"
        )


def _search(
    problem: LayerFlowProblem,
    bound: float,
    options: Options,
    share: float,
    until: Callable[[float], bool],
) -> Layout:
    """What the searches find in a share of the time."""
    covers = share if problem.partial and problem.links_never_bind(bound) else _COVERS * share
    budget = MoveBudget(int(options.time_limit * covers * _MOVES_A_SECOND), lambda: until(covers))
    _, found = search_covers(problem, bound, options.gap, options.seed, budget)
    if covers < share:
        flows = int(options.time_limit * (share - covers) * _FLOWS_A_SECOND / len(problem.nodes))
        budget = MoveBudget(flows, lambda: until(share))
        _, found = search_links(problem, bound, found, options.gap, options.seed, budget)
    return tuple(found)


def _prove(
    problem: LayerFlowProblem, layout: Layout, bound: float, options: Options, began: float
) -> tuple[Layout, float]:
    """The better of a layout and what the program finds, and the better bound."""
    left = options.wall_limit - (options.clock() - began)
    if left <= 0:
        return layout, bound
    try:
        other, bound = solve_exactly(problem, bound, left, options.seed)
    except SolverError:
        return layout, bound
    if other is None or judge(problem, other).value <= judge(problem, layout).value:
        return layout, bound
    return other, bound
