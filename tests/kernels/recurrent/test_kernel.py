"""One direction of a recurrence: for every target, beside plain loops in NumPy's float64."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from numpy.typing import NDArray

from tests.kernels.helpers import AVX2, AVX512, CUDA, REFERENCE, SSE, TWO_CORES, random, runs_here
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.recurrent.activations import activations_of
from tvm_hetero.kernels.recurrent.cpu import tile_of
from tvm_hetero.kernels.recurrent.gpu import recurrence_on_gpu
from tvm_hetero.kernels.recurrent.kernel import recur, recurrence_of
from tvm_hetero.kernels.recurrent.layout import columns_of, layout_of
from tvm_hetero.kernels.recurrent.recurrence import GRU, LSTM, RNN, Recurrence
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.kernels.tir.index_values import values_of
from tvm_hetero.kernels.tir.statements import loop
from tvm_hetero.kernels.tir.threads import Threads

Array = NDArray[Any]
_FUNCTIONS = {LSTM: ("Sigmoid", "Tanh", "Tanh"), GRU: ("Sigmoid", "Tanh"), RNN: ("Tanh",)}


def recurrence(
    cell: str, steps: int = 3, batch: int = 2, hidden: int = 21, **more: Any
) -> Recurrence:
    return Recurrence(cell, steps, batch, hidden, activations_of(_FUNCTIONS[cell]), **more)


ALL = [
    recurrence(LSTM, lengths=True, initial_h=True, initial_c=True, peepholes=True),
    recurrence(GRU, reverse=True, lengths=True, initial_h=True),
    recurrence(GRU, reverse=True, reset_after=True),
    recurrence(RNN, hidden=40, lengths=True),
]
IDS = ["lstm", "gru", "gru reset after", "rnn"]


def packed(r: Recurrence, matrix: Array) -> Array:
    """The state's matrix ``[gates H, H]`` as the kernel has it."""
    layout = layout_of(r)
    rows = np.vstack([matrix, np.zeros((1, r.hidden), matrix.dtype)])[columns_of(layout)]
    parts = []
    for group in layout.groups:
        gates = len(group.gates)
        part = rows[group.column : group.column + gates * layout.padded]
        blocks = part.reshape(layout.blocks, gates, layout.block, r.hidden)
        parts.append(blocks.transpose(0, 3, 1, 2).reshape(-1))
    return np.concatenate(parts)


def inputs(r: Recurrence, lengths: tuple[int, ...] = (1, 3)) -> tuple[Array, Array, list[Array]]:
    """What the input contributes ``[T, B, gates, H]``, the state's matrix, and the arguments."""
    layout, size = layout_of(r), r.gates * r.hidden
    product, matrix = random(0, r.steps, r.batch, size), random(1, size, r.hidden) / 4
    empty = np.zeros((r.steps, r.batch, 1), np.float32)
    arguments = [np.concatenate([product, empty], 2)[:, :, columns_of(layout)], packed(r, matrix)]
    padding = layout.padded - r.hidden
    if r.reset_after:
        arguments.append(np.pad(random(2, r.hidden), (0, padding)))
    if r.peepholes:
        arguments.append(np.pad(random(3, 3, r.hidden), ((0, 0), (0, padding))))
    if r.lengths:
        arguments.append(np.resize(np.array(lengths, np.int32), r.batch))
    states = (r.initial_h, r.initial_c)
    arguments += [random(4 + i, r.batch, r.hidden) for i, given in enumerate(states) if given]
    results = [(r.steps, r.batch, r.hidden), *[(r.batch, r.hidden)] * (2 if r.cell == LSTM else 1)]
    arguments += [np.full(shape, np.nan, np.float32) for shape in results]
    return product.reshape(r.steps, r.batch, r.gates, r.hidden), matrix, arguments


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def expected(r: Recurrence, lengths: tuple[int, ...] = (1, 3)) -> list[Array]:
    """Y, Y_h and Y_c, one sequence and step after the other."""
    product, matrix, arguments = inputs(r, lengths)
    rest = [a.astype(np.float64) for a in arguments[2:]]
    bias = rest.pop(0)[: r.hidden] if r.reset_after else np.zeros(r.hidden)
    peepholes = rest.pop(0)[:, : r.hidden] if r.peepholes else np.zeros((3, r.hidden))
    counts = rest.pop(0).astype(int) if r.lengths else np.full(r.batch, r.steps)
    first = [
        rest.pop(0) if given else np.zeros((r.batch, r.hidden))
        for given in (r.initial_h, r.initial_c)
    ]
    y = np.zeros((r.steps, r.batch, r.hidden))
    last = np.zeros((2, r.batch, r.hidden))
    for b, count in enumerate(counts):
        h, c = first[0][b], first[1][b]
        for t in range(count)[:: -1 if r.reverse else 1]:
            x, weights = product[t, b].astype(np.float64), matrix.astype(np.float64)
            gates = x + (weights @ h).reshape(r.gates, r.hidden)
            if r.cell == LSTM:
                i, f = (sigmoid(gates[g] + peepholes[p] * c) for g, p in ((0, 0), (2, 2)))
                c = f * c + i * np.tanh(gates[3])
                h = sigmoid(gates[1] + peepholes[1] * c) * np.tanh(c)
            elif r.cell == GRU:
                z, reset = sigmoid(gates[0]), sigmoid(gates[1])
                own = weights[2 * r.hidden :]
                seen = reset * (own @ h + bias) if r.reset_after else own @ (reset * h)
                h = (1 - z) * np.tanh(x[2] + seen) + z * h
            else:
                h = np.tanh(gates[0])
            y[t, b] = h
        last[:, b] = (h, c) if count else (0, 0)
    return [y, *last[: 2 if r.cell == LSTM else 1]]


def called(kernel: Any, target: Any, arguments: list[Array]) -> list[Array]:
    """What a kernel leaves in its arguments."""
    mod = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    tensors = [tvm.runtime.tensor(np.ascontiguousarray(a)) for a in arguments]
    tvm.runtime.Executable(build(mod, target)).jit()["main"](*tensors)
    return [tensor.numpy() for tensor in tensors]


def check(r: Recurrence, kernel: Any, target: Any, lengths: tuple[int, ...] = (1, 3)) -> None:
    *_, arguments = inputs(r, lengths)
    right = expected(r, lengths)
    found = called(kernel, target, arguments)[-len(right) :]
    for ours, exact in zip(found, right, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE], ids=["avx512", "avx2", "sse"])
@pytest.mark.parametrize("r", ALL, ids=IDS)
def test_a_kernel_for_a_cpu(r: Recurrence, target: Any) -> None:
    kernel = schedule_kernel(recur(r), target)
    assert rule_of(kernel) == "recurrent"
    if runs_here(target):
        check(r, kernel, target)


@pytest.mark.parametrize("r", ALL, ids=IDS)
def test_the_kernel_that_no_one_has_scheduled(r: Recurrence) -> None:
    check(r, recur(r), REFERENCE)


@pytest.mark.parametrize("batch", [1, 3, 7, 9])
def test_tiles_of_any_number_of_sequences(batch: int) -> None:
    r = recurrence(LSTM, batch=batch, lengths=True)
    check(r, schedule_kernel(recur(r), AVX2), AVX2)


@pytest.mark.parametrize("cell", [LSTM, GRU, RNN])
def test_what_is_computed_at_once_fits_in_the_registers(cell: str) -> None:
    for target in (AVX512, AVX2, SSE):
        unit = vector_unit(target)
        for batch in (1, 2, 5, 8, 33):
            r = recurrence(cell, batch=batch, hidden=128)
            layout, gates = layout_of(r), 2 if cell == GRU else r.gates
            tile = tile_of(r, layout, unit)
            sums = gates * tile.vectors * tile.rows * tile.splits
            assert tile.lanes == unit.lanes
            assert sums + tile.rows < unit.registers
            assert sums >= 6


def test_units_are_filled_up_as_little_as_can_be() -> None:
    padded = [layout_of(recurrence(RNN, hidden=n)).padded for n in (1, 16, 17, 48, 64, 100, 256)]
    assert padded == [16, 16, 32, 48, 64, 112, 256]


def test_cores_share_the_units_where_the_weights_are_many() -> None:
    few, many = (recurrence(LSTM, steps=2, hidden=n) for n in (64, 192))
    assert "T.parallel" not in schedule_kernel(recur(few), TWO_CORES).script()
    kernel = schedule_kernel(recur(many), TWO_CORES)
    assert "T.parallel" in kernel.script()
    check(many, kernel, TWO_CORES)


class _NoThreads(Threads):
    """Plain loops in the place of a GPU's threads, which need no barriers then."""

    scope = "global"

    def loop(self, tag: str, extent: int, body: Any) -> Any:
        return loop(tag.replace(".", "_"), extent, body)

    def barrier(self) -> list[Any]:
        return []


@pytest.mark.parametrize("r", ALL, ids=IDS)
def test_a_kernel_for_a_gpu(r: Recurrence) -> None:
    check(r, recurrence_on_gpu(r, _NoThreads()), REFERENCE)
    kernel = schedule_kernel(recur(r), CUDA)
    assert rule_of(kernel) == "recurrent"
    assert all(f'"{tag}.x"' in kernel.script() for tag in ("threadIdx", "blockIdx"))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="compiles with nvcc")
def test_the_compiler_for_gpus_takes_it() -> None:
    kernel = schedule_kernel(recur(ALL[1]), CUDA)
    mod = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    (device,) = build(mod, CUDA).imports
    assert "__syncthreads" in device.inspect_source()


@pytest.mark.parametrize("lengths", [(0, 4), (-1, 3)])
def test_a_length_that_is_none_is_an_error(lengths: tuple[int, int]) -> None:
    r = recurrence(RNN, lengths=True)
    *_, arguments = inputs(r, lengths)
    bad = next(n for n in lengths if not 0 <= n <= 3)
    with pytest.raises(IndexError, match=rf"index {bad} .*sequence_lens.* expected 0 to 3"):
        called(schedule_kernel(recur(r), AVX2), AVX2, arguments)


def test_it_is_measured_with_sequences_of_all_steps() -> None:
    r = recurrence(LSTM, steps=7, lengths=True)
    assert values_of(recur(r)) == {2: 7}
    assert values_of(recur(replace(r, lengths=False))) == {}


def test_a_kernel_bears_what_it_computes() -> None:
    functions = activations_of(["Elu", "LeakyRelu"], [0.3, 0.1])
    r = Recurrence(GRU, 3, 2, 5, functions, reverse=True, clip=0.1, dtype="float64")
    assert recurrence_of(recur(r)) == r


def test_several_elements_at_once() -> None:
    r = recurrence(RNN)
    kernel = schedule_kernel(batch_kernel(recur(r), 2, [1]), AVX2)  # weights are shared
    *_, one = inputs(r)
    other = [one[0][::-1].copy(), *one[1:]]
    pairs = [[a] if i == 1 else [a, b] for i, (a, b) in enumerate(zip(one, other, strict=True))]
    found = called(kernel, AVX2, [a for pair in pairs for a in pair])
    alone = schedule_kernel(recur(r), AVX2)
    for arguments, y in ((one, found[-4]), (other, found[-3])):
        np.testing.assert_allclose(y, called(alone, AVX2, arguments)[-2], rtol=1e-5, atol=1e-6)
