"""Kernels that run only if conditions hold that are known when they start.

A kernel of one branch of an ``If`` need not run where the other branch is taken. It then has more
parameters than it computes with, scalars of type bool, before its results:

    kernel(inputs..., condition..., results...)       attribute: where they are, and their values

Not every such kernel is skipped: measuring runs it whatever the conditions say, so that its cost is
that of a branch that is taken. `skip_if_not_wanted` makes kernels that are skipped of them, for
what is built. A skipped kernel leaves its results as they are, and no one reads them.

Rules see the kernel without its conditions: `schedule_under_conditions` takes them off, and puts
them around what is scheduled. On a GPU every kernel runs: its host does not see the conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx

from tvm_hetero.kernels.tir.batched import CONDITIONS, statements_of, with_root
from tvm_hetero.kernels.tir.statements import load, sequence, tensor


def with_conditions(func: tirx.PrimFunc, wanted: Sequence[bool], results: int) -> tirx.PrimFunc:
    """A kernel with a parameter for each condition.

    Parameters
    ----------
    func
        A kernel that is not scheduled.
    wanted
        The value that each condition must have for the kernel to be needed.
    results
        How many of the kernel's parameters, the last ones, it writes.

    Returns
    -------
    tirx.PrimFunc
        Computes the same, whatever the conditions are.
    """
    first = len(func.params) - results
    params = [tensor(f"condition_{i}", [], "bool") for i in range(len(wanted))]
    attribute = {"first": first, "wanted": [int(value) for value in wanted], "skips": 0}
    return _with_params(func, first, params).with_attr(CONDITIONS, attribute)


def skip_if_not_wanted(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that will be scheduled as one that looks at its conditions, if it has any."""
    attribute = _attribute(func)
    return func if attribute is None else func.with_attr(CONDITIONS, {**attribute, "skips": 1})


def schedule_under_conditions(
    func: tirx.PrimFunc, schedule: Callable[[tirx.PrimFunc], tirx.PrimFunc], *, on_host: bool
) -> tirx.PrimFunc:
    """A kernel, scheduled by ``schedule`` as if it had no conditions.

    Parameters
    ----------
    func
        A kernel that is not scheduled.
    schedule
        What makes a scheduled one of it, with as many parameters.
    on_host
        Whether the kernel may look at its conditions.
    """
    attribute = _attribute(func)
    if attribute is None:
        return schedule(func)
    first, count = attribute["first"], len(attribute["wanted"])
    own = [*func.params[:first], *func.params[first + count :]]
    plain = tirx.PrimFunc(own, func.body, func.ret_type, func.attrs, func.span)
    done = schedule(plain.without_attr(CONDITIONS))
    params = [tensor(f"condition_{i}", [], "bool") for i in range(count)]
    if attribute["skips"] and on_host:
        done = _skipped(done, params, attribute["wanted"])
    return _with_params(done, first, params).with_attr(CONDITIONS, attribute)


def has_conditions(func: tirx.PrimFunc) -> bool:
    """Whether a kernel has conditions."""
    return _attribute(func) is not None


def conditions_of(func: tirx.PrimFunc) -> tuple[int, tuple[bool, ...]]:
    """Which argument of a kernel is its first condition, and the values that they must have."""
    attribute = _attribute(func)
    if attribute is None:
        return 0, ()
    return attribute["first"], tuple(bool(value) for value in attribute["wanted"])


def _attribute(func: tirx.PrimFunc) -> dict[str, Any] | None:
    value = func.attrs.get(CONDITIONS) if func.attrs is not None else None
    if value is None:
        return None
    wanted = [int(v) for v in value["wanted"]]
    return {"first": int(value["first"]), "wanted": wanted, "skips": int(value["skips"])}


def _with_params(func: tirx.PrimFunc, at: int, params: Sequence[tirx.Var]) -> tirx.PrimFunc:
    """The function with more parameters, from position `at` on."""
    joined = [*func.params[:at], *params, *func.params[at:]]
    return tirx.PrimFunc(joined, func.body, func.ret_type, func.attrs, func.span)


def _skipped(
    func: tirx.PrimFunc, params: Sequence[tirx.Var], wanted: Sequence[int]
) -> tirx.PrimFunc:
    """A scheduled kernel whose statements stand under its conditions."""
    tests = [
        load(p) if value else tirx.Not(load(p)) for p, value in zip(params, wanted, strict=True)
    ]
    test = tests[0] if len(tests) == 1 else tirx.all(*tests)
    root = func.body.block
    inner = tirx.IfThenElse(test, sequence(statements_of(root.body)), None)
    return func.with_body(with_root(func.body, inner, list(root.alloc_buffers)))
