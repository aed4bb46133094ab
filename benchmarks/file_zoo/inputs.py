"""Random inputs for a file: real ones where an export left some beside it, else by its types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.file_zoo.cases import FileCase

_TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(bool)": np.bool_,
    "tensor(uint8)": np.uint8, "tensor(int8)": np.int8,
}  # fmt: skip
_SEED = 0


def inputs_of(case: FileCase, path: Path, declared: Any) -> dict[str, Any]:
    """Return arrays for the inputs that ONNX Runtime's session declares."""
    beside = path.with_suffix(".npz")
    if beside.exists():
        with np.load(beside) as stored:
            return {each.name: stored[each.name] for each in declared}
    rng = np.random.default_rng(_SEED)
    return {each.name: _array(case, each, rng) for each in declared}


def _array(case: FileCase, declared: Any, rng: np.random.Generator) -> Any:
    kind = _TYPES[declared.type]
    if declared.name in case.values:
        return np.asarray(case.values[declared.name], kind)
    open_shape = [size if isinstance(size, int) and size > 0 else 1 for size in declared.shape]
    shape = case.shapes.get(declared.name, tuple(open_shape))
    if np.issubdtype(kind, np.floating):
        return rng.standard_normal(shape).astype(kind)
    return rng.integers(0, case.below.get(declared.name, 2), shape).astype(kind)
