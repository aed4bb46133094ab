"""Give tasks of one branch the condition under which the branch is taken.

    before:  a = f(x); b = g(x); y = choose(c, a, b)
    after:   a = f(x, c); b = g(x, c); y = choose(c, a, b)     f is needed if c, g if not c

Which tasks a branch has is read off the graph: a task is under a condition if all that reads its
results is, or is the choice itself. So tasks that both branches need, and outputs, are under none;
a task of a branch within a branch is under both conditions. The condition never depends on a task
that is under it, since such a task would also be read by what makes the condition.

The kernels look at their conditions only in what is built (`skip_branches`): what is measured is
the cost of a branch that is taken, and the schedule is that of both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from tvm_hetero.kernels.rowwise.choose import is_choice
from tvm_hetero.kernels.tir.conditions import has_conditions, skip_if_not_wanted, with_conditions
from tvm_hetero.passes.lowered_main import KernelCall, LoweredMain, bindings, read_main

# The condition's expression, and the value of it under which a task is needed.
Condition = tuple[Any, bool]


def mark_branches(mod: tvm.IRModule) -> tvm.IRModule:
    """Give the tasks of branches their conditions; a module without choices comes back as it is.

    Raises
    ------
    ModelError
        The module is not lowered.
    """
    main = read_main(mod)
    choices = {call.position for call in main.calls if is_choice(mod[call.kernel])}
    found = _conditions(main, choices) if choices else {}
    return _with_operands(mod, main, found) if found else mod


def skip_branches(mod: tvm.IRModule) -> tvm.IRModule:
    """Let kernels look at their conditions."""
    skipping = {
        gv: skip_if_not_wanted(func)
        for gv, func in mod.functions_items()
        if isinstance(func, tvm.tirx.PrimFunc) and has_conditions(func)
    }
    if not skipping:
        return mod
    mod = tvm.IRModule(dict(mod.functions_items()), attrs=mod.attrs)
    for gv, func in skipping.items():
        mod[gv] = func
    return mod


def _conditions(main: LoweredMain, choices: set[int]) -> dict[int, tuple[Condition, ...]]:
    """For each call that is under conditions, by its position, these; outer ones first."""
    returned = {root.call for root in map(main.root, main.results()) if root is not None}
    uses: dict[int, list[tuple[Condition, ...]]] = {call.position: [] for call in main.calls}
    found: dict[int, tuple[Condition, ...]] = {}
    for call in reversed(main.calls):
        position = call.position
        own = () if position in returned else _shared(uses[position])
        if own:
            found[position] = own
        for place, arg in enumerate(call.args):
            root = main.root(arg)
            if root is None or root.call is None:
                continue
            chosen = position in choices and place > 0
            more = ((call.args[0], place == 1),) if chosen else ()
            uses[root.call].append((*own, *more))
    return found


def _shared(uses: Sequence[tuple[Condition, ...]]) -> tuple[Condition, ...]:
    """The conditions with which all uses begin."""
    if not uses:
        return ()
    shared: list[Condition] = []
    for steps in zip(*uses, strict=False):
        variable, wanted = steps[0]
        if not all(v.same_as(variable) and w == wanted for v, w in steps):
            break
        shared.append(steps[0])
    return tuple(shared)


def _with_operands(
    mod: tvm.IRModule, main: LoweredMain, found: Mapping[int, tuple[Condition, ...]]
) -> tvm.IRModule:
    """The module in which the calls hand their conditions to kernels that have them."""
    builder = relax.BlockBuilder(mod)
    kernels: dict[tuple[str, tuple[bool, ...]], Any] = {}
    updated: dict[Any, relax.Call] = {}
    for call in main.calls:
        conditions = found.get(call.position, ())
        if not conditions:
            continue
        key = (call.kernel.name_hint, tuple(wanted for _, wanted in conditions))
        if key not in kernels:
            func = with_conditions(mod[call.kernel], key[1], len(call.outputs))
            kernels[key] = builder.add_func(func, f"{key[0]}_if")
        args = [*call.args, *(condition for condition, _ in conditions)]
        updated[call.var] = relax.call_tir(kernels[key], args, _types(call))
    module = builder.get()
    function = main.function
    made = [relax.VarBinding(var, updated.get(var, value)) for var, value in bindings(function)]
    body = relax.SeqExpr([relax.DataflowBlock(_sorted(made))], function.body.body)
    module["main"] = relax.Function(function.params, body, function.ret_ty, attrs=function.attrs)
    sequence = [relax.transform.Normalize(), relax.transform.DeadCodeElimination(["main"])]
    return tvm.transform.Sequential(sequence)(module)


def _types(call: KernelCall) -> Any:
    return list(call.outputs) if call.is_tuple else call.outputs[0]


def _sorted(made: Sequence[relax.VarBinding]) -> list[relax.VarBinding]:
    """The bindings such that each stands behind what it reads, else in their order."""
    names = {binding.var for binding in made}
    reads = [[v for v in relax.analysis.free_vars(binding.value) if v in names] for binding in made]
    done: set[Any] = set()
    order: list[relax.VarBinding] = []
    waiting = list(zip(made, reads, strict=True))
    while waiting:
        later = []
        for binding, needed in waiting:
            if done.issuperset(needed):
                order.append(binding)
                done.add(binding.var)
            else:
                later.append((binding, needed))
        assert len(later) < len(waiting), "a condition depends on a task that is under it"
        waiting = later
    return order
