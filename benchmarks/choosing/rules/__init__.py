"""Rules that others follow, for comparison: what they pick is played as our answers are.

Each is a function from a rated question and the shares that are needed to replicas, and knows
nothing of the program. Their papers choose by price; where the goal is energy they may choose by
watts, too, of a replica with its full share, as the program counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.choosing.rules.best_single_type import pick_single_type
from benchmarks.choosing.rules.cocktail import pick_cocktail
from benchmarks.choosing.rules.infaas import pick_infaas
from benchmarks.choosing.rules.melange import pick_melange
from benchmarks.choosing.rules.stock import ReplicaCost
from tvm_hetero.planning.choosing.find_choice import MachineChoice, Need, RatedRequest, find_choice
from tvm_hetero.planning.choosing.program import ProgramAnswer, Replicas, milliwatts, money

Rule = Callable[[RatedRequest, Need, ReplicaCost], Replicas]

RULES: Mapping[str, Rule] = {
    "best single type": pick_single_type,
    "INFaaS": pick_infaas,
    "Cocktail": pick_cocktail,
    "Mélange": pick_melange,
}


COSTS: Mapping[str, ReplicaCost] = {"price": money, "energy": milliwatts}


def follow_rule(case: RatedRequest, name: str, goal: str = "price") -> MachineChoice:
    """What a rule chooses by one of `COSTS`, with the margin with which it keeps the SLO.

    Raises
    ------
    InfeasibleError
        If the rule finds nothing.
    """
    cost = COSTS[goal]

    def pick(need: Need) -> ProgramAnswer:
        replicas = RULES[name](case, need, cost)
        value = sum(cost(rated) * count for rated, count in replicas)
        return ProgramAnswer(replicas, value, 0)

    return find_choice(case, pick, goal)
