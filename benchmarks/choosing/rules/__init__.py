"""Rules that others follow, for comparison: what they pick is played as our answers are.

Each is a function from a rated question and the shares that are needed to replicas, and knows
nothing of the program. All of them choose by price.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.choosing.rules.best_single_type import pick_single_type
from benchmarks.choosing.rules.cocktail import pick_cocktail
from benchmarks.choosing.rules.infaas import pick_infaas
from benchmarks.choosing.rules.melange import pick_melange
from tvm_hetero.planning.choosing.find_choice import MachineChoice, Need, RatedRequest, find_choice
from tvm_hetero.planning.choosing.program import ProgramAnswer, Replicas, money

Rule = Callable[[RatedRequest, Need], Replicas]

RULES: Mapping[str, Rule] = {
    "best single type": pick_single_type,
    "INFaaS": pick_infaas,
    "Cocktail": pick_cocktail,
    "Mélange": pick_melange,
}


def follow_rule(case: RatedRequest, name: str) -> MachineChoice:
    """What a rule chooses, with the margin with which it keeps the SLO when played.

    Raises
    ------
    InfeasibleError
        If the rule finds nothing.
    """

    def pick(need: Need) -> ProgramAnswer:
        replicas = RULES[name](case, need)
        price = sum(money(rated) * count for rated, count in replicas)
        return ProgramAnswer(replicas, price, 0)

    return find_choice(case, pick, "price")
