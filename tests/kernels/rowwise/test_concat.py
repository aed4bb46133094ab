"""Which kernels only put tensors one behind the other."""

from __future__ import annotations

import pytest
from tvm import relax

from tests.models import lowered, two_cpus
from tvm_hetero.kernels.rowwise.concat import join_starts

ops = relax.op


def starts_of(shapes, axis, dtype="float32", then=None):
    """Of the one kernel that a concatenation of inputs becomes."""
    variables = [
        relax.Var(f"x{i}", relax.TensorType(shape, dtype)) for i, shape in enumerate(shapes)
    ]
    builder = relax.BlockBuilder()
    with builder.function("main", variables):
        with builder.dataflow():
            value = builder.emit(ops.concat(variables, axis=axis))
            value = value if then is None else builder.emit(then(value))
            out = builder.emit_output(value)
        builder.emit_func_output(out)
    module = lowered(builder.get(), two_cpus())
    (kernel,) = [gv for gv in module.get_global_vars() if gv.name_hint != "main"]
    return join_starts(module[kernel])


@pytest.mark.parametrize(
    ("shapes", "axis", "dtype", "starts"),
    [
        ([(1, 2, 3, 4), (1, 5, 3, 4)], 1, "float32", (0, 96)),
        ([(1, 2, 3), (1, 5, 3), (1, 1, 3)], -2, "float16", (0, 12, 42)),
        ([(2, 3), (1, 3)], 0, "int64", (0, 48)),
        ([(1, 1, 7), (1, 1, 2)], 2, "int8", (0, 7)),
        ([(1, 3), (1, 3)], 0, "float32", (0, 12)),
    ],
)
def test_parts_stand_one_behind_the_other(shapes, axis, dtype, starts):
    assert starts_of(shapes, axis, dtype) == starts


@pytest.mark.parametrize(
    ("shapes", "axis"),
    [([(2, 3, 4), (2, 5, 4)], 1), ([(1, 2, 3), (1, 2, 5)], 2)],
)
def test_parts_that_alternate_are_no_join(shapes, axis):
    assert starts_of(shapes, axis) is None


def test_what_computes_besides_is_no_join():
    assert starts_of([(1, 2, 3), (1, 5, 3)], 1, then=ops.nn.relu) is None
