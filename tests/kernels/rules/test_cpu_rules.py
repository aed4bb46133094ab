"""Which rules are tried: whoever is passed over would not have fitted."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relax, tirx

from tests.kernels.helpers import AVX2, AVX512, kernels, model
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.rules.cpu_rules import CPU_RULES, rules_for
from tvm_hetero.kernels.tir.unchecked_schedule import quick_schedule
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

op = relax.op
SHAPE = (2, 16, 12, 20)
ELEMENTWISE: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "relu": op.nn.relu,
    "turned": lambda x: op.permute_dims(x, (0, 2, 3, 1)),
    "padded": lambda x: op.nn.pad(x, (0, 0, 0, 0, 1, 1, 2, 2)),
    "joined": lambda x: op.concat([x, op.exp(x)], 1),
    "cut": lambda x: op.strided_slice(x, [2], [1], [7]),
    "as another": lambda x: op.astype(x, "int32"),
    "shuffled": lambda x: op.reshape(
        op.permute_dims(op.reshape(x, (2, 4, 4, 240)), (0, 2, 1, 3)), SHAPE
    ),
}
REDUCING: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "maximum": lambda x: op.max(x, [3]),
    "softmax": lambda x: op.nn.softmax(x, 3),
    "windows": lambda x: op.nn.max_pool2d(x, (2, 2)),
    "product": lambda x: op.matmul(x, op.permute_dims(x, (0, 1, 3, 2))),
    "convolution": lambda x: op.nn.conv2d(x, op.ones((8, 16, 3, 3), "float32")),
}


def of(body: Callable[[relax.Expr], relax.Expr]) -> list[tirx.PrimFunc]:
    """The kernels of a model of one input."""
    return list(kernels(LowerToTasks((AVX512,))(model([SHAPE], body))).values())


def fits(func: tirx.PrimFunc, name: str, target: object) -> bool:
    try:
        return CPU_RULES[name](quick_schedule(func), vector_unit(target), 1)
    # As where they are tried: what does not fit may raise anything.
    except Exception:
        return False


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_no_rule_that_is_not_tried_would_fit(name: str) -> None:
    for func in of(ELEMENTWISE[name]):
        tried = rules_for(func)
        assert list(tried) == ["transpose", "generic"]
        for target in (AVX512, AVX2):
            assert [
                rule for rule in CPU_RULES if rule not in tried and fits(func, rule, target)
            ] == []


@pytest.mark.parametrize("name", REDUCING)
def test_where_something_is_reduced_all_rules_are_tried(name: str) -> None:
    assert CPU_RULES in [rules_for(func) for func in of(REDUCING[name])]
