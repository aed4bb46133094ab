"""An operator without a kernel is refused by its name, and not in the words of a check of TVM."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tvm_hetero.errors import ModelError
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


def test_the_operator_and_its_types_are_named() -> None:
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((2, 5), "float64"))
    one = relax.const(tvm.runtime.tensor(np.ones(5)))
    with builder.function("main", [x]):
        with builder.dataflow():
            whole = builder.emit(relax.op.add(x, x))
            found = builder.emit(relax.op.nn.layer_norm(whole, one, one, [1]))
            out = builder.emit_output(found)
        builder.emit_func_output(out)
    with pytest.raises(ModelError, match=r"no kernel for nn.layer_norm of \(.*float64.*float32"):
        LowerToTasks()(builder.get())
