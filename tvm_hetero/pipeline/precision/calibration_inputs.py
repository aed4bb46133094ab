"""Inputs on which errors are measured: given ones, or random ones; and others that are held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_hetero.errors import UsageError
from tvm_hetero.executor.inputs import TensorInfo, random_values
from tvm_hetero.passes.lowered_main import LoweredMain, static_shape
from tvm_hetero.passes.states import ranges_of
from tvm_hetero.util.untrusted_names import printable

# Random inputs for calibration, and as many that are held out, whose seeds lie apart.
_RANDOM, _APART = 2, 1 << 20

Inputs = list[Mapping[str, Any]]


def calibration_inputs(
    main: LoweredMain, given: Sequence[Mapping[str, Any]], seed: int
) -> tuple[Inputs, Inputs]:
    """Inputs for calibration, and others: of those that were given every second one.

    Parameters
    ----------
    main : of the model.
    given : the user's inputs, if there are any.
    seed : of random ones.
    """
    if given:
        return list(given[::2]), list(given[1::2])
    seeds = range(seed, seed + _RANDOM)
    return [random_inputs(main, s) for s in seeds], [random_inputs(main, s + _APART) for s in seeds]


def random_inputs(main: LoweredMain, seed: int) -> dict[str, np.ndarray[Any, Any]]:
    """Inputs for a run, as an executor draws them."""
    ranges = ranges_of(main)
    infos = []
    for name, param in zip(main.inputs, main.params, strict=True):
        shape, limits = static_shape(param.ty, name), ranges.get(name)
        span = None if limits is None else (limits[0], limits[1])
        infos.append(TensorInfo(name, shape, str(param.ty.dtype), span))
    return random_values(infos, seed)


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
