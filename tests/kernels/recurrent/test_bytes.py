"""An LSTM whose state and weights are bytes: the same integers by whatever instructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm

from tests.kernels.helpers import AVX2, AVX512, REFERENCE, SSE, random, runs_here
from tests.kernels.recurrent.test_kernel import called, recurrence, sigmoid
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.errors import ModelError
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.recurrent.kernel import recur
from tvm_hetero.kernels.recurrent.layout import columns_of, layout_of
from tvm_hetero.kernels.recurrent.recurrence import LSTM, MOST_BYTES, Recurrence
from tvm_hetero.kernels.select import rule_of

OWN = tvm.target.Target({"kind": "llvm", "mcpu": own_mcpu(), "num-cores": 1})
TARGETS = {"avx512": AVX512, "avx2": AVX2, "sse": SSE, "plain": REFERENCE, "own": OWN}
SCALE = np.float32(0.004)


def inputs(r: Recurrence) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """What the input contributes, weights ``[4 H, H]``, and the arguments."""
    layout, columns = layout_of(r), columns_of(layout_of(r))
    product = random(0, r.steps, r.batch, 4 * r.hidden)
    weights = np.random.default_rng(1).integers(-128, 128, (4 * r.hidden, r.hidden))
    spare = 4 * layout.depth - r.hidden
    rows = np.pad(weights, ((0, 1), (0, spare)))[columns].astype(np.int8)
    shape = (layout.blocks, 4, layout.block, layout.depth, 4)
    words = np.ascontiguousarray(rows.reshape(shape).transpose(0, 3, 1, 2, 4)).view(np.int32)
    arguments = [
        np.pad(product, ((0, 0), (0, 0), (0, 1)))[:, :, columns],
        words.reshape(-1),
        np.full(layout.columns, SCALE),
        rows.astype(np.int32).sum(axis=1, dtype=np.int32),
    ]
    state = (r.batch, r.hidden)
    arguments += [np.full(each, np.nan, np.float32) for each in ((r.steps, *state), state, state)]
    return product, weights, arguments


def expected(r: Recurrence) -> np.ndarray:
    """Y, with a range of levels for all sequences together."""
    product, weights, _ = inputs(r)
    h, c = (np.zeros((r.batch, r.hidden), np.float32) for _ in range(2))
    y = np.zeros((r.steps, r.batch, r.hidden))
    for t in range(r.steps):
        span = np.float32(max(h.max(), 0) - min(h.min(), 0)) / np.float32(255)
        scale = span or np.float32(1)
        zero = np.rint(-min(h.min(), np.float32(0)) / scale)
        codes = np.clip(np.rint(h / scale) + zero, 0, 255) - zero
        sums = (codes.astype(np.int64) @ weights.T).astype(np.float32) * (scale * SCALE)
        i, o, f, g = np.split((product[t] + sums).astype(np.float32), 4, axis=1)
        c = (sigmoid(f) * c + sigmoid(i) * np.tanh(g)).astype(np.float32)
        h = (sigmoid(o) * np.tanh(c)).astype(np.float32)
        y[t] = h
    return y


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
@pytest.mark.parametrize(("batch", "hidden"), [(1, 32), (2, 21)])
def test_sums_are_those_of_integers(target: Any, batch: int, hidden: int) -> None:
    r = recurrence(LSTM, 3, batch, hidden, quantized=True, in_bytes=True)
    kernel = recur(r) if target is REFERENCE else schedule_kernel(recur(r), target)
    assert target is REFERENCE or rule_of(kernel) == "recurrent"
    if runs_here(target):
        y = called(kernel, target, inputs(r)[2])[-3]
        np.testing.assert_allclose(y, expected(r), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("wrong", [{"quantized": False}, {"hidden": MOST_BYTES + 1}])
def test_bytes_without_levels_and_sums_that_do_not_fit_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="weights in bytes"):
        recur(recurrence(LSTM, **{"quantized": True, **wrong}, in_bytes=True))
