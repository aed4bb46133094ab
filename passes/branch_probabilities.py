"""How often tasks run, from how often the conditions of branches hold.

    y = choose(c, f(x), g(x))       P(c) = 0.9:    f counts 0.9 times, g 0.1 times

A task under several conditions, in a branch within a branch, counts their product: the probability
of the inner condition is that among the requests which come to it. What no probability is given for
counts as if it always ran, on both sides of its choice.

Expected costs stand in a problem in the place of costs. Sums of them, which loads, prices and
energies are, are then expectations; so is a latency where tasks follow one another. Of what runs
side by side the later end is expected no sooner than the plan says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm

from tvm_hetero.errors import UsageError
from tvm_hetero.kernels.rowwise.choose import choice_names, is_choice
from tvm_hetero.kernels.tir.conditions import conditions_of
from tvm_hetero.passes.attributes import PROBABILITIES
from tvm_hetero.passes.lowered_main import LoweredMain, TensorSource, read_main
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.cost import Cost
from tvm_hetero.problem.model import Problem
from tvm_hetero.util.untrusted_names import printable

_SHOWN = 10


@dataclass(frozen=True)
class BranchCondition:
    """A condition by which branches are chosen: its names in the model, and where it comes from."""

    names: tuple[str, ...]
    root: TensorSource


def with_probabilities(mod: tvm.IRModule, probabilities: Mapping[str, float]) -> tvm.IRModule:
    """Note in a lowered module how often its conditions hold; without any, take that away.

    Raises
    ------
    UsageError
        If a name is of no condition of the module, or two names of one say different things.
    """
    if mod.attrs is not None and PROBABILITIES in mod.attrs:
        mod = mod.without_attr(PROBABILITIES)
    if not probabilities:
        return mod
    _of_roots(branch_conditions(mod), probabilities)
    return mod.with_attr(PROBABILITIES, json.dumps(dict(sorted(probabilities.items()))))


def probabilities_of(mod: tvm.IRModule) -> dict[str, float]:
    """What `with_probabilities` has noted."""
    text = mod.attrs.get(PROBABILITIES) if mod.attrs is not None else None
    return {} if text is None else dict(json.loads(str(text)))


def branch_conditions(mod: tvm.IRModule) -> tuple[BranchCondition, ...]:
    """The conditions of a lowered module that have names, in its order."""
    return _named(mod, read_main(mod))


def expected_costs(mod: tvm.IRModule, problem: Problem) -> Problem:
    """A problem in which tasks cost what they cost on average, by what the module notes.

    Parameters
    ----------
    mod : lowered; its tasks are those of the problem.
    problem : with costs of tasks that run.
    """
    given = probabilities_of(mod)
    if not given:
        return problem
    shares = _shares(mod, given)
    costs = {
        task: _scaled(row, shares.get(task, 1.0), problem.platform)
        for task, row in problem.costs.items()
    }
    return replace(problem, costs=costs)


def _shares(mod: tvm.IRModule, probabilities: Mapping[str, float]) -> dict[str, float]:
    """For each task that is under conditions, how often it runs."""
    main = read_main(mod)
    known = _of_roots(_named(mod, main), probabilities)
    shares = {}
    for call in main.calls:
        first, wanted = conditions_of(mod[call.kernel])
        factor = 1.0
        for arg, value in zip(call.args[first:], wanted, strict=False):
            holds = known.get(main.root(arg))
            if holds is not None:
                factor *= holds if value else 1 - holds
        shares[main.task_ids[call.position]] = factor
    return shares


def _named(mod: tvm.IRModule, main: LoweredMain) -> tuple[BranchCondition, ...]:
    found: dict[Any, list[str]] = {}
    for call in main.calls:
        func = mod[call.kernel]
        if is_choice(func):
            found.setdefault(main.root(call.args[0]), []).extend(choice_names(func))
    return tuple(
        BranchCondition(tuple(dict.fromkeys(names)), root)
        for root, names in found.items()
        if names and root is not None
    )


def _of_roots(
    conditions: Sequence[BranchCondition], probabilities: Mapping[str, float]
) -> dict[TensorSource | None, float]:
    """The probability of each condition for which one is given."""
    known = {name for condition in conditions for name in condition.names}
    for name in probabilities:
        if name not in known:
            raise UsageError(_unknown(name, conditions))
    found: dict[TensorSource | None, float] = {}
    for condition in conditions:
        given = {probabilities[name] for name in condition.names if name in probabilities}
        if len(given) > 1:
            raise UsageError(
                f"{_names(condition.names)} are names of one condition, for which the "
                f"probabilities {', '.join(map(str, sorted(given)))} are given; give one"
            )
        if given:
            found[condition.root] = given.pop()
    return found


def _unknown(name: str, conditions: Sequence[BranchCondition]) -> str:
    """What is said of a name that no condition has."""
    what = f"a probability is given for {printable(name)!r}, "
    if not conditions:
        return (
            f"{what}but no If of the model is decided while it runs: it has none, or shapes, "
            "constants and fixed values decide them all"
        )
    listed = "; ".join(_names(each.names) for each in conditions[:_SHOWN])
    more = f"; and {len(conditions) - _SHOWN} others" if len(conditions) > _SHOWN else ""
    return (
        f"{what}which is no condition of the model. Its conditions are, by the names of their If, "
        f"of themselves and of what is chosen: {listed}{more}"
    )


def _names(names: Iterable[str]) -> str:
    return " = ".join(repr(printable(name)) for name in names)


def _scaled(row: Mapping[str, Cost], share: float, platform: Platform) -> Mapping[str, Cost]:
    """A task's costs on devices that skip it where it is not wanted."""
    if share == 1:
        return row
    return {
        device: cost.scaled(share) if _skips(platform, device) else cost
        for device, cost in row.items()
    }


def _skips(platform: Platform, device: str) -> bool:
    """Whether kernels of a device look at their conditions: those of GPUs do not."""
    target = platform.device(device).target
    return target is None or str(target.get("kind", "llvm")) == "llvm"
