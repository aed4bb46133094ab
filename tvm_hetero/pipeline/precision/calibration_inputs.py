"""Inputs on which errors are measured: given ones, or random ones; and others that are held out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np

from tvm_hetero.errors import RunError, UsageError
from tvm_hetero.executor.inputs import TensorInfo, random_values
from tvm_hetero.passes.lowered_main import LoweredMain, static_shape
from tvm_hetero.passes.states import ranges_of
from tvm_hetero.pipeline.precision.input_kinds import KINDS, draw_inputs
from tvm_hetero.util.untrusted_names import printable

# Random inputs for calibration of ranges, and how far from theirs other seeds lie.
_RANDOM, _APART = 2, 1 << 20

Values = Mapping[str, Any]
Inputs = list[Values]
Arrays = list["np.ndarray[Any, Any]"]


def calibration_inputs(
    main: LoweredMain,
    given: Sequence[Values],
    seed: int,
    kinds: Sequence[str],
    checks: int,
) -> tuple[Inputs, Sequence[Values]]:
    """Inputs for calibration, and others: of those that were given every second one.

    Parameters
    ----------
    main : of the model.
    given : the user's inputs, if there are any.
    seed : of random ones.
    kinds : of random ones: one is for calibration of each, or two of a single one.
    checks : how many random ones are held out.
    """
    if given:
        return list(given[::2]), list(given[1::2])
    infos = input_infos(main)
    count = max(len(kinds), _RANDOM)
    others = DrawnInputs(infos, kinds, seed + _APART, checks)
    return list(DrawnInputs(infos, kinds, seed, count)), others


def random_inputs(main: LoweredMain, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Standard normal inputs, as an executor draws them."""
    return random_values(input_infos(main), seed)


def input_infos(main: LoweredMain) -> list[TensorInfo]:
    """What the model says of its inputs."""
    ranges = ranges_of(main)
    infos = []
    for name, param in zip(main.inputs, main.params, strict=True):
        shape, limits = static_shape(param.ty, name), ranges.get(name)
        span = None if limits is None else (limits[0], limits[1])
        infos.append(TensorInfo(name, shape, str(param.ty.dtype), span))
    return infos


class DrawnInputs(Sequence[Values]):
    """Random inputs of several kinds in turns, each drawn when it is looked at.

    Parameters
    ----------
    infos : what the model says of its inputs.
    kinds : of `KINDS`.
    seed, count : of the first ones, and how many there are.
    """

    def __init__(
        self, infos: Sequence[TensorInfo], kinds: Sequence[str], seed: int, count: int
    ) -> None:
        self._infos, self._kinds, self._seed, self._count = infos, kinds, seed, count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Values: ...
    @overload
    def __getitem__(self, index: slice) -> Inputs: ...
    def __getitem__(self, index: int | slice) -> Values | Inputs:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if not 0 <= index < self._count:
            raise IndexError(index)
        drawn, kind = divmod(index, len(self._kinds))
        return draw_inputs(self._infos, self._kinds[kind], self._seed + drawn)


def sound_kinds(main: LoweredMain, seed: int, run: Callable[[Values], Arrays]) -> list[str]:
    """The kinds of which a network makes numbers that are not all 0; of none of them the first.

    What a kernel refuses, infinities and outputs of zeros say nothing of a relative error.

    Parameters
    ----------
    run : the network in float32.
    """
    infos = input_infos(main)
    sound = []
    for kind in KINDS:
        try:
            outputs = run(draw_inputs(infos, kind, seed))
        except RunError:
            continue
        floats = [output for output in outputs if output.dtype.kind == "f"]
        if all(np.isfinite(output).all() and output.any() for output in floats):
            sound.append(kind)
    return sound or [KINDS[0]]


def check_inputs(main: LoweredMain, inputs: Mapping[str, Any]) -> None:
    """Refuse inputs for calibration that are not the model's.

    Raises
    ------
    UsageError
        If one is unknown or missing, or of another shape or type.
    """
    unknown = sorted(set(inputs) - set(main.inputs))
    if unknown:
        names = ", ".join(map(printable, main.inputs))
        raise UsageError(
            f"calibration: the model has no input {printable(unknown[0])!r}; it has {names}"
        )
    for name, param in zip(main.inputs, main.params, strict=True):
        shape, dtype = static_shape(param.ty, name), str(param.ty.dtype)
        array = None if name not in inputs else np.asarray(inputs[name])
        if array is None or array.shape != shape or str(array.dtype) != dtype:
            given = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
            raise UsageError(
                f"calibration: input {printable(name)!r}: expected {dtype}{list(shape)}, got "
                f"{given}"
            )
