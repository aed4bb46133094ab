"""A model whose inputs can be to blame, for one element and for four: rows of a table, twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax

from tests.models import equal_cpus, lowered, random_schedule, unit_problem
from tvm_hetero.artifact.executable import Executable
from tvm_hetero.compiler.build import build
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.serve.models.served_times import ServedTimes
from tvm_hetero.serve.scheduling.course import Pace

ROWS = 10
_WIDTH = 4


def lookup(scale: float = 2.0) -> tvm.IRModule:
    """Rows of a table by int32[1, 3], times `scale`; a number that is no row is an error."""
    table = np.arange(ROWS * _WIDTH, dtype="float32").reshape(ROWS, _WIDTH)
    x = relax.Var("x", relax.TensorType((1, 3), "int32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            rows = builder.emit(relax.op.take(relax.const(table), x, axis=0))
            out = builder.emit_output(relax.op.multiply(rows, relax.const(np.float32(scale))))
        builder.emit_func_output(out)
    return builder.get()


def build_for(batch: int, module: tvm.IRModule) -> Executable:
    """A model for so many elements at once, on two equal cores, that can be divided."""
    mod = lowered(module, equal_cpus())
    problem = unit_problem(mod, equal_cpus(), batch)
    return build(annotate_devices(mod, problem, random_schedule(problem, 1)), adaptable=True)


class FixedTimes(ServedTimes):
    """Times that measuring does not change: so many seconds on one core and on two."""

    def __init__(self, one: float, two: float) -> None:
        paces = [Pace(one, one), Pace(two, two)]
        super().__init__(paces, paces)

    def add(self, items: int, places: int, seconds: float) -> None:
        """Take no sample."""


def element(numbers: Sequence[int]) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of `lookup`."""
    return {"input0": np.array([numbers], "int32")}
