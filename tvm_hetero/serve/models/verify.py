"""Whether a version of a model may take the place of another: it computes, and means the same.

The first version of a name to be loaded leaves behind a *golden* run: inputs (seeded, of its own
signature), and which of its outputs were finite. A later one has to have the same signature, to
compute on those very inputs, and to give numbers where the first gave numbers. What the numbers
are may differ: that is what new versions are for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_hetero.errors import UsageError
from tvm_hetero.executor.tensors import as_array
from tvm_hetero.serve.models.served_decoder import ServedDecoder
from tvm_hetero.serve.models.tensor_model import TensorModel

_Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class GoldenRun:
    """What the next version is held against.

    Attributes
    ----------
    signature : names, shapes and types, by which two versions are compared; for people, too.
    inputs : of the run.
    finite : outputs without NaN or infinity.
    """

    signature: tuple[str, ...]
    inputs: Mapping[str, _Array]
    finite: frozenset[str]


def verify(
    runner: TensorModel | ServedDecoder, golden: GoldenRun | None, *, may_change: bool = False
) -> GoldenRun:
    """Let a version compute, and compare it with what its name has served so far.

    Parameters
    ----------
    golden : of the versions before; None: it is the first.
    may_change : whether the signature may be another; then it is as if it were the first.

    Raises
    ------
    UsageError
        If it may not be served under the name.
    RunError
        If it does not compute.
    """
    signature = _signature(runner)
    if golden is not None and golden.signature != signature:
        if not may_change:
            raise UsageError(_difference(golden.signature, signature))
        golden = None
    inputs = _inputs(runner) if golden is None else golden.inputs
    outputs = _compute(runner, inputs)
    finite = frozenset(name for name, array in outputs.items() if _is_finite(array))
    lost = sorted((golden.finite if golden else frozenset()) - finite)
    if lost:
        raise UsageError(f"output {lost[0]!r} of the new version has NaN or infinity where the "
                         "version that is served has numbers; it is not served")  # fmt: skip
    return golden or GoldenRun(signature, inputs, finite)


def _signature(runner: TensorModel | ServedDecoder) -> tuple[str, ...]:
    if not isinstance(runner, TensorModel):
        return (f"{runner.vocabulary} tokens", f"sequences of {runner.length}")
    rows = []
    for kind, infos in (("in", runner.signature.inputs), ("out", runner.signature.outputs)):
        rows += [f"{kind} {each.name}: {each.dtype}{list(each.shape)}" for each in infos]
    return tuple(rows)


def _difference(old: tuple[str, ...], new: tuple[str, ...]) -> str:
    gone = ", ".join(row for row in old if row not in new) or "nothing"
    come = ", ".join(row for row in new if row not in old) or "nothing"
    return (f"the new version has another signature: {gone} became {come}; its clients would fail. "
            "Load it under another name, or ask for the change")  # fmt: skip


def _inputs(runner: TensorModel | ServedDecoder) -> Mapping[str, _Array]:
    return runner.executor.inputs_that_run(0) if isinstance(runner, TensorModel) else {}


def _compute(
    runner: TensorModel | ServedDecoder, inputs: Mapping[str, _Array]
) -> dict[str, _Array]:
    if not isinstance(runner, TensorModel):
        # One step of all slots at their first position: whoever comes next overwrites it.
        zeros = [0] * runner.batch
        return {"logits": runner.step(0, zeros, zeros).result()}
    made = runner.executor.run(inputs)
    names = runner.executor.outputs
    return {name: as_array(value) for name, value in zip(names, made, strict=True)}


def _is_finite(array: _Array) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())
