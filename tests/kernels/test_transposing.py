"""Vectors of rows to vectors of columns, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import tirx

from tests.kernels.helpers import REFERENCE, random
from tvm_hetero.kernels.compilation import build
from tvm_hetero.kernels.statements import bound, function, load, ramp, store, tensor, whole
from tvm_hetero.kernels.transposing import transposed


def kernel(lanes: int) -> tirx.PrimFunc:
    """Rows of one buffer to columns of another one."""
    given, wanted = tensor("given", [lanes, lanes]), tensor("wanted", [lanes, lanes])
    all_lanes = ramp(whole(0), lanes)
    rows = [bound("row", load(given, r, all_lanes)) for r in range(lanes)]
    found, statements = transposed([var for var, _ in rows])
    stores = [store(wanted, [c, all_lanes], column) for c, column in enumerate(found)]
    body = [*(bind for _, bind in rows), *statements, *stores]
    return function([given, wanted], body, "transposing", [wanted])


@pytest.mark.parametrize("lanes", [1, 2, 4, 8, 16])
def test_rows_become_columns(lanes):
    mod = tvm.IRModule({"main": kernel(lanes).with_attr("global_symbol", "main")})
    run = tvm.runtime.Executable(build(mod, REFERENCE)).jit()["main"]
    given = random(0, lanes, lanes)
    got = tvm.runtime.tensor(np.zeros((lanes, lanes), np.float32))
    run(tvm.runtime.tensor(given), got)
    np.testing.assert_array_equal(got.numpy(), given.T)
