"""Array types: one file names them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import tvm_hetero
from tvm_hetero.views import array_types

PACKAGE = Path(tvm_hetero.__file__).parent


def test_views_bounds_and_solvers_make_no_array_types_of_their_own() -> None:
    files = [f for room in ("views", "bounds", "solvers") for f in (PACKAGE / room).rglob("*.py")]
    assert len(files) > 100
    own = [
        f"{file.relative_to(PACKAGE)}: {line}"
        for file in files
        if file.name != "array_types.py"
        for line in file.read_text().splitlines()
        if re.search(r"\b(NDArray|ndarray)\b", line)
    ]
    assert own == []


def test_a_name_says_what_one_element_is() -> None:
    names = {
        "FloatArray": np.float64,
        "IntArray": np.int64,
        "Int32Array": np.int32,
        "Int16Array": np.int16,
        "BoolArray": np.bool_,
        "UInt64Array": np.uint64,
    }
    for name, dtype in names.items():
        assert repr(np.dtype(dtype).type).split("'")[1] in str(getattr(array_types, name))
