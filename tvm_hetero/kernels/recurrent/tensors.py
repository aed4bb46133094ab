"""The parameters of a recurrent kernel, and the memory that it needs beside them."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_hetero.kernels.recurrent.layout import RecurrentLayout
from tvm_hetero.kernels.recurrent.recurrence import GRU, LSTM, Recurrence
from tvm_hetero.kernels.tir.statements import tensor


@dataclass(frozen=True)
class RecurrentTensors:
    """The parameters of the function in their order; None for those that it has not.

    Attributes
    ----------
    product
        ``[T, B, columns]``: what the input contributes, with biases.
    weights
        ``[weights]``: of the state; words of four bytes, or numbers.
    factors, totals
        ``[columns]``: of weights in bytes, by what a column is multiplied, and its sum (int32).
    bias
        ``[padded]``: of the last gate's product with the state, where a GRU resets after it.
    peepholes
        ``[3, padded]``: for the gates i, o, f.
    lengths
        ``[B]``, int32.
    first_h, first_c
        ``[B, H]``.
    y, last_h, last_c
        ``[T, B, H]`` and ``[B, H]``: what the kernel writes.
    """

    product: tirx.Var
    weights: tirx.Var
    factors: tirx.Var | None
    totals: tirx.Var | None
    bias: tirx.Var | None
    peepholes: tirx.Var | None
    lengths: tirx.Var | None
    first_h: tirx.Var | None
    first_c: tirx.Var | None
    y: tirx.Var
    last_h: tirx.Var
    last_c: tirx.Var | None

    @property
    def params(self) -> list[tirx.Var]:
        """All of them."""
        optional = [self.factors, self.totals, self.bias, self.peepholes, self.lengths]
        optional += [self.first_h, self.first_c]
        given = [each for each in optional if each is not None]
        return [self.product, self.weights, *given, *self.written]

    @property
    def written(self) -> list[tirx.Var]:
        """Those that the kernel writes."""
        return [each for each in (self.y, self.last_h, self.last_c) if each is not None]


def recurrent_tensors(r: Recurrence, layout: RecurrentLayout) -> RecurrentTensors:
    """Fresh parameters."""
    state = [r.batch, r.hidden]

    def maybe(name: str, shape: list[int], there: bool, dtype: str = r.dtype) -> tirx.Var | None:
        return tensor(name, shape, dtype) if there else None

    return RecurrentTensors(
        tensor("product", [r.steps, r.batch, layout.columns], r.dtype),
        tensor("weights", [layout.weights], "int32" if r.in_bytes else r.dtype),
        maybe("factors", [layout.columns], r.in_bytes),
        maybe("totals", [layout.columns], r.in_bytes, "int32"),
        maybe("bias", [layout.padded], r.cell == GRU and r.reset_after),
        maybe("peepholes", [3, layout.padded], r.peepholes),
        maybe("sequence_lens", [r.batch], r.lengths, "int32"),
        maybe("initial_h", state, r.initial_h),
        maybe("initial_c", state, r.initial_c),
        tensor("y", [r.steps, *state], r.dtype),
        tensor("y_h", state, r.dtype),
        maybe("y_c", state, r.cell == LSTM),
    )


@dataclass(frozen=True)
class RecurrentScratch:
    """What a kernel remembers from step to step.

    Attributes
    ----------
    h
        ``[2, B, padded]``: the state before a step and after it, in turns.
    c
        ``[B, padded]``: the cells of an LSTM; the update gates of a GRU that resets first.
    reset
        ``[B, padded]``: the state of such a GRU, times its reset gates.
    levels
        ``[B, padded]``: the state as the products see it, where it is quantized; its codes, where
        weights are in bytes.
    range
        ``[2, lanes]``: the least and the greatest numbers of such a state.
    whole
        For each row of a tile: sums of codes, where weights are in bytes.
    gates
        For each row of a tile: sums of the gates, then their values.
    """

    h: tirx.Var
    c: tirx.Var | None
    reset: tirx.Var | None
    levels: tirx.Var | None
    range: tirx.Var | None
    whole: list[tirx.Var]
    gates: list[tirx.Var]

    @property
    def buffers(self) -> list[tirx.Var]:
        """All of them."""
        states = (self.h, self.c, self.reset, self.levels, self.range)
        return [each for each in states if each is not None] + self.whole + self.gates


def recurrent_scratch(
    r: Recurrence,
    layout: RecurrentLayout,
    sequences: int,
    rows: int,
    sums: int,
    scope: str = "global",
    lanes: int = 1,
) -> RecurrentScratch:
    """Fresh buffers, for so many sequences, in tiles of so many rows with so many sums each.

    Parameters
    ----------
    r, layout
        What is computed, and how it lies in memory.
    sequences, rows, sums
        How many there are.
    scope
        Of what all threads see.
    lanes
        Of the vectors in which a state's range is found.
    """
    state = [sequences, layout.padded]
    two = len(layout.groups) == 2
    return RecurrentScratch(
        tensor("h", [2, *state], r.dtype, scope),
        tensor("c", state, r.dtype, scope) if two or r.cell == LSTM else None,
        tensor("reset", state, r.dtype, scope) if two else None,
        tensor("levels", state, "uint8" if r.in_bytes else r.dtype, scope) if r.quantized else None,
        tensor("range", [2, lanes], r.dtype, "local") if r.quantized else None,
        [tensor(f"whole_{m}", [sums], "int32", "local") for m in range(rows * r.in_bytes)],
        [tensor(f"gates_{m}", [sums], r.dtype, "local") for m in range(rows)],
    )
