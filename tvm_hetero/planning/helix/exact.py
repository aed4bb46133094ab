"""All layouts at once as a mixed-integer program, for problems of a few nodes and layers.

Helix's program has a number for where a node's interval begins and switches links by comparing
such numbers, with factors as large as L. Here flows carry the boundary at which they pass, so that
nothing is compared:

    hold(i, s, k)   whether node i holds layers s ... s + k - 1                   binary
    pass(i, p, j)   tokens a second that leave node i behind layer p - 1 for node j
    enter(i), leave(i)   from the coordinator and back to it

    one interval    sum over s, k of hold(i, s, k) <= 1                           (_intervals)
    leaving         sum over j of pass(i, p, j) <= sum over s + k = p of T(i, k) hold(i, s, k)
                    leave(i) likewise with p = L                                  (_leaving)
    entering        sum over i of pass(i, p, j) <= sum over [s, s + k) that p may enter of
                    T(j, k) hold(j, s, k); enter(j) likewise with p = 0           (_entering)
    nodes           what comes in goes out, and is at most what node i holds passes (_through)
    links           sum over p of pass(i, p, j) <= C(i, j)                        (_links)
    covers          every layer's nodes pass what enters in all                   (_covers)

maximise the sum of enter(i). Tokens are counted in thousandths of the bound, for `backends`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tvm_hetero.planning.helix.problem import LayerFlowProblem, LayerInterval, Layout
from tvm_hetero.solvers.milp.backends import solve
from tvm_hetero.solvers.milp.model import Linear, MilpModel, total

# Flows above which a program is not tried: HiGHS finds nothing in a minute.
MOST_FLOWS = 2_000
# What the bound is in the program.
_UNITS = 1000.0


def flow_count(problem: LayerFlowProblem) -> int:
    """How many flows the program has, which says how large it is."""
    return len(problem.links) * (problem.layers - 1)


def solve_exactly(
    problem: LayerFlowProblem, bound: float, seconds: float, seed: int
) -> tuple[Layout | None, float]:
    """The best layout that HiGHS finds, and tokens a second that none surpasses.

    Raises
    ------
    SolverError
        If HiGHS fails.
    """
    if bound <= 0:
        return None, 0.0
    unit = bound / _UNITS
    program = _Program(problem, unit)
    outcome = solve(program.model, "highs", seconds, seconds, seed)
    # Its bound is one from below on the negative throughput.
    proven = min(bound, max(0.0, -outcome.bound * unit))
    if proven < _least_capacity(problem):
        # Where there is a way, a token's worth of the narrowest place on it passes.
        proven = 0.0
    return (program.layout(outcome.values) if outcome.values is not None else None), proven


def _least_capacity(problem: LayerFlowProblem) -> float:
    capacities = [*problem.links.values(), *problem.entries, *problem.exits]
    rates = [rate for node in problem.nodes for rate in node.rates]
    return min(each for each in capacities + rates if each > 0)


class _Program:
    """The program of a problem, family by family."""

    def __init__(self, problem: LayerFlowProblem, unit: float) -> None:
        self.problem = problem
        self.unit = unit
        self.model = MilpModel()
        self.hold: list[dict[LayerInterval, Linear]] = []
        self._intervals()
        most = [max(node.rates) / unit for node in problem.nodes]
        self.enter = self._ends("enter", most, problem.entries)
        self.leave = self._ends("leave", most, problem.exits)
        self.passes = self._passes(most)
        self._leaving()
        self._entering()
        self._through()
        self._links()
        self._covers()
        self.model.objective = -total(self.enter)
        self.model.at_most(total(self.enter), _UNITS)

    def layout(self, values: list[float]) -> Layout:
        """What each node holds in a solution."""
        found: list[LayerInterval | None] = []
        for choices in self.hold:
            held = [each for each, hold in choices.items() if hold.value(values) > 0.5]
            found.append(held[0] if held else None)
        return tuple(found)

    def _intervals(self) -> None:
        for i, node in enumerate(self.problem.nodes):
            choices = {
                LayerInterval(first, count): self.model.binary(f"hold {i} {first} {count}")
                for count in range(1, len(node.rates) + 1)
                for first in range(self.problem.layers - count + 1)
            }
            self.model.at_most(total(choices.values()), 1.0)
            self.hold.append(choices)

    def _ends(self, what: str, most: list[float], links: Iterable[float]) -> list[Linear]:
        return [
            self.model.number(0.0, min(own, link / self.unit), f"{what} {i}")
            for i, (own, link) in enumerate(zip(most, links, strict=True))
        ]

    def _passes(self, most: list[float]) -> dict[tuple[int, int, int], Linear]:
        return {
            (i, boundary, j): self.model.number(
                0.0, min(most[i], most[j], capacity / self.unit), f"pass {i} {boundary} {j}"
            )
            for (i, j), capacity in self.problem.links.items()
            for boundary in range(1, self.problem.layers)
        }

    def _rate(self, node: int, held: Iterable[LayerInterval]) -> Linear:
        """What a node passes, if it holds one of these."""
        rates = self.problem.nodes[node].rates
        return total(self.hold[node][each] * (rates[each.length - 1] / self.unit) for each in held)

    def _leaving(self) -> None:
        flows: dict[tuple[int, int], list[Linear]] = defaultdict(list)
        for (i, boundary, _), flow in self.passes.items():
            flows[i, boundary].append(flow)
        for (i, boundary), leaving in flows.items():
            ending = [held for held in self.hold[i] if held.end == boundary]
            self.model.at_most(total(leaving), self._rate(i, ending))
        for i, leave in enumerate(self.leave):
            ending = [held for held in self.hold[i] if held.end == self.problem.layers]
            self.model.at_most(leave, self._rate(i, ending))

    def _entering(self) -> None:
        flows: dict[tuple[int, int], list[Linear]] = defaultdict(list)
        for (_, boundary, j), flow in self.passes.items():
            flows[j, boundary].append(flow)
        for j, enter in enumerate(self.enter):
            flows[j, 0].append(enter)
        for (j, boundary), entering in flows.items():
            self.model.at_most(total(entering), self._rate(j, self._open_at(j, boundary)))

    def _open_at(self, node: int, boundary: int) -> list[LayerInterval]:
        """Intervals that a token may enter at a boundary."""
        if self.problem.partial:
            return [held for held in self.hold[node] if held.first <= boundary < held.end]
        return [held for held in self.hold[node] if held.first == boundary]

    def _through(self) -> None:
        coming, going = defaultdict(list), defaultdict(list)
        for (i, _, j), flow in self.passes.items():
            going[i].append(flow)
            coming[j].append(flow)
        for i in range(len(self.problem.nodes)):
            inward = total([self.enter[i], *coming[i]])
            self.model.equal(inward, total([self.leave[i], *going[i]]))
            self.model.at_most(inward, self._rate(i, self.hold[i]))

    def _links(self) -> None:
        flows: dict[tuple[int, int], list[Linear]] = defaultdict(list)
        for (i, _, j), flow in self.passes.items():
            flows[i, j].append(flow)
        for ends, over in flows.items():
            self.model.at_most(total(over), self.problem.links[ends] / self.unit)

    def _covers(self) -> None:
        entering = total(self.enter)
        for layer in range(self.problem.layers):
            covering = [
                self._rate(i, [held for held in choices if held.first <= layer < held.end])
                for i, choices in enumerate(self.hold)
            ]
            self.model.at_least(total(covering), entering)
