"""All options of a question, rated for every class; those that nobody needs are cut, with a proof.

For one class, an option is dominated by another one of the same variant and machine that carries at
least as much and, where watts count, draws no more: whatever uses it can use the other one instead.
Two certificates are kept (`CutOption`): what was simulated for both, or the bound of `most_share`
for the one that was not simulated at all. The latter is enough only where watts do not count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from tvm_hetero.errors import InfeasibleError, UsageError
from tvm_hetero.planning.choosing.decoder_ways import plan_ways
from tvm_hetero.planning.choosing.levels import at_levels
from tvm_hetero.planning.choosing.rate import capacity_of, most_share
from tvm_hetero.planning.choosing.replica_plan import (
    ReplicaOption,
    idle_watts,
    is_decoder,
    price_of,
)
from tvm_hetero.planning.choosing.request import ChoiceRequest, RequestClass
from tvm_hetero.solvers import Options
from tvm_hetero.solvers.core.deadline import Deadline, check_left


@dataclass(frozen=True, eq=False)
class RatedOption:
    """What a replica of an option carries of a class.

    Attributes
    ----------
    served : position of the class; capacity : share of it, in `UNITS` (see `rate`).
    watts : in the mean, with that share; NaN where watts are not known.
    """

    option: ReplicaOption
    served: int
    capacity: int
    watts: float


@dataclass(frozen=True, eq=False)
class CutOption:
    """An option that `by` dominates for a class; `most` is what it carries at most, in `UNITS`.

    `simulated` tells a share that was found by simulation from one that is proven without.
    """

    option: ReplicaOption
    served: int
    most: int
    by: RatedOption
    simulated: bool


def counts_watts(request: ChoiceRequest) -> bool:
    """Whether watts are part of the question."""
    return request.goal == "energy" or request.budget.watts is not None


def check_request(request: ChoiceRequest) -> None:
    """Refuse what cannot be answered.

    Raises
    ------
    UsageError
        If a goal needs figures that are missing, variants are of two kinds, requests are none of
        theirs, or no variant is accurate enough for a class.
    """
    if request.goal == "accuracy" and request.budget.price is request.budget.watts is None:
        raise UsageError("goal accuracy: give a budget, a price or watts, that bounds it")
    for machine in request.machines:
        if price_of(machine) is None:
            raise UsageError(f"machine {machine.name!r} has no price; give 'price', an hour")
        if counts_watts(request) and idle_watts(machine) is None:
            raise UsageError(
                f"machine {machine.name!r} has no watts; give 'idle_watts' and 'busy_watts'"
            )
    kinds = {is_decoder(variant) for variant in request.variants}
    if len(kinds) > 1:
        raise UsageError("variants: expected networks or decoders, got both; ask twice")
    for served in request.classes:
        _check_class(request, served, decoders=kinds == {True})


def _check_class(request: ChoiceRequest, served: RequestClass, *, decoders: bool) -> None:
    if not decoders and any(each.figure == "tpot" for each in served.slo):
        raise UsageError(f"class {served.name!r}: tpot is of decoders; limit the latency")
    if not decoders and any((each.prompt, each.output) != (1, 1) for each in served.requests):
        raise UsageError(
            f"class {served.name!r}: a network answers once; expected prompts and outputs of 1"
        )
    best = max(variant.accuracy for variant in request.variants)
    if served.least_accuracy > best:
        raise UsageError(
            f"class {served.name!r} takes an accuracy of at least {served.least_accuracy:g}, and "
            f"the best variant has {best:g}; lower it, or add a variant"
        )


def plan_options(
    request: ChoiceRequest, options: Options, tell: Callable[[str], None] | None = None
) -> tuple[ReplicaOption, ...]:
    """A plan for every variant on every machine and each batch; those that do not fit are left out.

    Raises
    ------
    InfeasibleError
        If none fits.
    SolverError
        If `options.ends` has passed.
    """
    found: list[ReplicaOption] = []
    for variant in request.variants:
        for machine in (way for offer in request.machines for way in at_levels(offer)):
            if tell is not None:
                tell(f"{variant.name} on {machine.label}")
            for batch in request.batches:
                check_left(
                    options.ends, "choose", f"before {variant.name} on {machine.label} is planned"
                )
                try:
                    found += plan_ways(variant, machine, batch, options)
                except InfeasibleError as error:
                    last = error
    if not found:
        raise InfeasibleError(f"no variant fits onto any machine; the last one: {last}")
    return tuple(found)


def rate_options(
    request: ChoiceRequest,
    options: Sequence[ReplicaOption],
    only: Collection[int] | None = None,
    ends: Deadline | None = None,
) -> tuple[tuple[RatedOption, ...], tuple[CutOption, ...]]:
    """What each option carries of each class (or some of them), and those that were cut.

    Raises
    ------
    UsageError
        If a decoder's caches are too short for a request.
    SolverError
        If `ends` has passed.
    """
    rated: list[RatedOption] = []
    cut: list[CutOption] = []
    groups: dict[tuple[str, str], list[ReplicaOption]] = {}
    for option in options:
        groups.setdefault((option.variant.name, option.machine.name), []).append(option)
    for k in range(len(request.classes)) if only is None else sorted(only):
        for group in groups.values():
            _rate_group(request, k, group, rated, cut, ends)
    return tuple(rated), tuple(cut)


def _rate_group(
    request: ChoiceRequest,
    k: int,
    group: Sequence[ReplicaOption],
    rated: list[RatedOption],
    cut: list[CutOption],
    ends: Deadline | None,
) -> None:
    """The options of one variant and machine for class k, the most promising first."""
    served = request.classes[k]
    _check_context(served, group[0])
    bounds = {option.name: most_share(option, served, request.seconds) for option in group}
    kept: list[RatedOption] = []
    for option in sorted(group, key=lambda each: (-bounds[each.name], -each.batch)):
        bound = bounds[option.name]
        if bound == 0:
            continue  # even a lone request takes longer than the SLO allows
        better = [each for each in kept if each.capacity >= bound]
        if better and not counts_watts(request):
            cut.append(CutOption(option, k, bound, better[0], simulated=False))
            continue
        capacity, watts = capacity_of(option, served, request.seconds, bound, ends)
        if capacity == 0:
            continue
        found = RatedOption(option, k, capacity, watts)
        rival = next((each for each in kept if _dominates(request, each, found)), None)
        if rival is not None:
            cut.append(CutOption(option, k, capacity, rival, simulated=True))
            continue
        for each in [each for each in kept if _dominates(request, found, each)]:
            kept.remove(each)
            cut.append(CutOption(each.option, k, each.capacity, found, simulated=True))
        kept.append(found)
    rated += kept


def _check_context(served: RequestClass, option: ReplicaOption) -> None:
    """Refuse requests that a decoder's caches have no room for (the last token needs none)."""
    longest = max(each.prompt + each.output - 1 for each in served.requests)
    if option.context and longest > option.context:
        raise UsageError(
            f"class {served.name!r} has a request of {longest} tokens, and the caches of variant "
            f"{option.variant.name!r} have {option.context}; set its parameters: {{context: ...}}"
        )


def _dominates(request: ChoiceRequest, one: RatedOption, other: RatedOption) -> bool:
    if one.capacity < other.capacity:
        return False
    return not counts_watts(request) or math.isnan(one.watts) or one.watts <= other.watts
