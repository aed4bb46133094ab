"""What our own rule would do if the machine were another one: a small space of good schedules.

Problem
    A rule reckons its register tile from a table of facts about the vector unit
    (`cpu.vector_unit`). The table is a model of the machine, and the best tile of a kernel may be
    another than the one that the model likes best. Which others are worth a measurement?

Answer
    Those that the rule would choose for slightly different facts: fewer registers, vectors of
    half the width, cheaper stores, a longer latency. Each of them is the best schedule under
    *some* plausible model, so nearly all of them are good; there are few of them; and every rule
    that reads the table can be tuned, without a word about tuning in the rule.

Order
    Each fact alone first, by every factor of `_FACTORS`; then several at once, drawn at random
    (the same draws every time). Facts that lead to the same schedule count once. The search
    gives up after `_FRUITLESS` draws that brought nothing new.

A variation is written down as the facts that differ, not as what the rule then did: rules may
do more to a function than TVM's schedule primitives can say.

There are some dozens of distinct schedules a kernel at most. Where the table of facts was set by
hand, they gained much, more than MetaSchedule's own space in as many trials; since it was fitted to
measured tiles of one machine, they find little there. `tvm-hetero tune` prints what they find on
another.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import tvm_ffi

from tvm_hetero.kernels.cpu.vector_unit import cores, vector_unit
from tvm_hetero.kernels.rules.cpu_rules import CPU_RULES
from tvm_hetero.kernels.tir.unchecked_schedule import quick_schedule

if TYPE_CHECKING:
    from tvm import tirx
    from tvm.target import Target

    from tvm_hetero.kernels.cpu.vector_unit import VectorUnit

# By what each fact is multiplied. A vector is never wider than the machine's.
_FACTORS: dict[str, tuple[float, ...]] = {
    "bits": (0.5,),
    "registers": (0.5, 0.75, 0.25, 1.25),
    "latency": (2, 0),
    "stream": (0.5, 4),
    "load": (4, 0),
    "store_vector": (8,),
    "store_value": (0.1, 4),
    "folded": (0, 2),
}
# Of a fact that this table does not know.
_ANY_FACT = (0.5, 2)
_FRUITLESS = 40


def find_variations(func: tirx.PrimFunc, target: Target) -> Iterator[tuple[str, dict[str, float]]]:
    """Rule and facts that give distinct schedules of a kernel, none that of the target's facts.

    Ends where nothing new is found; without any where no fact makes a difference.

    Parameters
    ----------
    func
        The unscheduled kernel.
    target
        An llvm target.
    """
    own = vector_unit(target)
    rule = next((name for name in CPU_RULES if _attempt(func, name, {}, target) is not None), None)
    if rule is None:
        return
    seen = {_identity(_attempt(func, rule, {}, target))}
    fruitless = 0
    for facts in _draws(own):
        identity = _identity(_attempt(func, rule, facts, target))
        fruitless += 1
        if identity is not None and identity not in seen:
            seen.add(identity)
            fruitless = 0
            yield rule, facts
        if fruitless == _FRUITLESS:
            return


def schedule_with_facts(
    func: tirx.PrimFunc, rule: str, facts: Mapping[str, float], target: Target
) -> tirx.PrimFunc:
    """The kernel as a rule schedules it where some facts are other than the target's.

    Raises
    ------
    Exception
        Where there is no such rule or fact, or the rule does not take the kernel.
    """
    changed: dict[str, Any] = dict(facts)
    sch = quick_schedule(func)
    if not CPU_RULES[rule](sch, replace(vector_unit(target), **changed), cores(target)):
        raise ValueError(f"rule {rule!r} does not take this kernel")
    return sch.mod["main"]


def _attempt(
    func: tirx.PrimFunc, rule: str, facts: Mapping[str, float], target: Target
) -> tirx.PrimFunc | None:
    try:
        return schedule_with_facts(func, rule, facts, target)
    # A rule that does not fit may raise anything (see `select`).
    except Exception:
        return None


def _identity(func: tirx.PrimFunc | None) -> int | None:
    return None if func is None else int(tvm_ffi.structural_hash(func))


def _draws(unit: VectorUnit) -> Iterator[dict[str, float]]:
    """Facts that differ: each alone by each factor, then about half of them at once, for ever."""
    names = [f.name for f in fields(unit) if not isinstance(getattr(unit, f.name), str)]
    factors = {name: _FACTORS.get(name, _ANY_FACT) for name in names}
    for name, choices in factors.items():
        for factor in choices:
            yield {name: _scaled(unit, name, factor)}
    rng = random.Random(0)
    while True:
        chosen = [name for name in factors if rng.random() < 0.5]
        yield {name: _scaled(unit, name, rng.choice(factors[name])) for name in chosen}


def _scaled(unit: VectorUnit, name: str, factor: float) -> float:
    """A fact multiplied; integers stay whole, and what is or is not is turned round."""
    value = getattr(unit, name)
    if isinstance(value, bool):
        return not value
    return int(value * factor) if isinstance(value, int) else float(value * factor)
