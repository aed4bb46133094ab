"""Tables of which a kernel reads what other data tell."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.models import lowered, two_cpus, unit_problem
from tvm_hetero.cost_models.in_network.batched_kernels import LEAST_WEIGHTS, find_batchable
from tvm_hetero.kernels.tir.gathers import find_gathered
from tvm_hetero.passes.extract_tasks import extract_tasks

ROWS, WIDTH = 1024, 512


def embedding() -> tvm.IRModule:
    """A row of a table, times a matrix; both are as large."""
    rng = np.random.default_rng(0)
    table = relax.const(rng.standard_normal((ROWS, WIDTH)).astype("float32"))
    matrix = relax.const(rng.standard_normal((WIDTH, ROWS)).astype("float32"))
    token = relax.Var("token", relax.TensorType((1,), "int32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [token]):
        with builder.dataflow():
            # Pooled, so that the row is not looked up by the product itself.
            row = builder.emit(relax.op.take(table, token, axis=0, mode="clip"))
            row = builder.emit(relax.op.nn.softmax(row))
            out = builder.emit_output(relax.op.matmul(row, matrix))
        builder.emit_func_output(out)
    return builder.get()


def test_a_table_is_looked_up_and_a_matrix_is_read() -> None:
    mod = lowered(embedding(), two_cpus())
    tasks = extract_tasks(mod)
    assert min(4 * ROWS * WIDTH, LEAST_WEIGHTS) == LEAST_WEIGHTS
    kernels = {kernel.name: kernel for kernel in tasks.kernels}
    take = next(kernel for name, kernel in kernels.items() if "take" in name)
    dense = next(kernel for name, kernel in kernels.items() if "dense" in name)
    assert find_gathered(take.func) == {0} and not find_gathered(dense.func)
    # What is looked up is as much as comes out of it, not the whole table.
    assert take.bytes == pytest.approx(4 + 2 * 4 * WIDTH)
    assert dense.bytes >= 4 * ROWS * WIDTH


def test_only_who_reads_its_weights_may_compute_several_elements_at_once() -> None:
    mod = lowered(embedding(), two_cpus())
    tasks = extract_tasks(mod)
    problem = unit_problem(mod, two_cpus())
    found = find_batchable(mod, problem)
    assert found == {task for task, kernel in tasks.kernel_of.items() if "dense" in kernel}
