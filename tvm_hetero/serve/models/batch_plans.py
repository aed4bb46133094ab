"""Several artifacts of one model: its own, and others that compute several elements at once.

A kernel that computes several elements reads its weights once (`kernels.tir.batched`), so that a
plan for a batch may take less an element. Where artifacts of one model are served under one name,
the first is what queries run by, and the others are its *batch plans*. They have to take and give
the same tensors, and to compute the same: on seeded elements their outputs are compared with those
of the model's own plan, element by element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvm_hetero.errors import UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.executor.inputs import TensorInfo
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.serve.models.tensor_model import TensorModel

# How far outputs may be off, as a share of the largest number among them: batched kernels may add
# up in another order.
TOLERANCE = 1e-3

Elements = Sequence[dict[str, np.ndarray[Any, Any]]]


def check_batches(model: TensorModel) -> None:
    """Refuse batch plans that are of another model, or none.

    Raises
    ------
    UsageError
        If sizes are not one, and others above; or tensors are others; or they compute otherwise.
    RunError
        If a plan does not compute.
    """
    if not model.batches:
        return
    sizes = [each.size for each in model.batches]
    if model.size != 1 or min(sizes) < 2 or len(set(sizes)) < len(sizes):
        raise UsageError(
            f"{model.name}: its artifacts are for batches of {model.size}, "
            f"{', '.join(map(str, sizes))}; expected the first to be for 1 element (partition it "
            "without --batch), and one for each larger size"
        )
    for each in model.batches:
        _check_tensors(model, each)
        elements = seeded_elements(model.executor, each.size)
        alone = [model.executor.run(element) for element in elements]
        _check_values(model, each, alone, each.executor.run(elements))


def seeded_elements(executor: Executor, count: int) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Inputs of so many elements, no two alike, on which a plan of one element runs."""
    return [dict(executor.inputs_that_run(seed)) for seed in range(count)]


def _check_tensors(model: TensorModel, batch: TensorModel) -> None:
    for what, own, theirs in (
        ("inputs", model.signature.inputs, batch.signature.inputs),
        ("outputs", model.signature.outputs, batch.signature.outputs),
    ):
        expected = [_of_batch(info, batch.size) for info in own]
        got = [(info.name, info.shape, info.dtype) for info in theirs]
        if expected != got:
            raise UsageError(
                f"{model.name}: the artifact for batches of {batch.size} is of another model: "
                f"expected {what} {expected}, got {got}"
            )


def _of_batch(info: TensorInfo, size: int) -> tuple[str, tuple[int, ...], str]:
    shape = (info.shape[0] * size, *info.shape[1:]) if info.shape else (size,)
    return info.name, shape, info.dtype


def _check_values(
    model: TensorModel, batch: TensorModel, alone: Sequence[Sequence[Any]], joined: Sequence[Any]
) -> None:
    for name, rows, whole in zip(
        model.executor.outputs, zip(*alone, strict=True), joined, strict=True
    ):
        for element, (one, other) in enumerate(zip(rows, as_array(whole), strict=True)):
            if not _are_alike(as_array(one), other):
                raise UsageError(
                    f"{model.name}: output {name!r} of element {element} is another one by the "
                    f"plan for batches of {batch.size} than alone (by more than {TOLERANCE:g} of "
                    "its largest number): is it of the same model, with the same weights?"
                )


def _are_alike(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    """Whether two outputs have the same bits, or are floats within the tolerance."""
    if one.tobytes() == other.tobytes():
        return True
    if one.dtype.kind in "biu":
        return False
    a, b = one.astype(np.float64), other.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return False
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    return bool(np.abs(a - b).max(initial=0.0) <= TOLERANCE * np.abs(a).max(initial=0.0))
