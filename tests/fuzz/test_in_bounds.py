"""Kernels stay within their arrays; and who does not is caught."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from tests.fuzz.guarded import GuardedArrays
from tests.fuzz.in_bounds import fault, wild_values

_STEP_OVER = """
import ctypes, numpy as np
from tests.fuzz.guarded import GuardedArrays
array = GuardedArrays(behind={behind}).copy(np.zeros(16, np.float32))
print("begun", flush=True)
ctypes.string_at(array.ctypes.data + {offset}, 1)
print("survived")
"""


def test_kernels_of_wild_models_stay_within_their_arrays() -> None:
    assert fault(100, 3, 8) is None


@pytest.mark.parametrize(("behind", "offset"), [(True, 64), (False, -1)])
def test_a_step_over_the_wall_is_a_fault(behind: bool, offset: int) -> None:
    code = _STEP_OVER.format(behind=behind, offset=offset)
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "begun\n"
    assert result.returncode < 0


def test_guarded_arrays_are_what_they_are_copies_of() -> None:
    array = np.arange(24, dtype=np.int64).reshape(2, 3, 4)
    for behind in (True, False):
        np.testing.assert_array_equal(GuardedArrays(behind=behind).copy(array), array)


def test_wild_values_reach_the_ends_of_their_type() -> None:
    rng = np.random.default_rng(0)
    found = np.concatenate([wild_values(rng, [100], "int64") for _ in range(10)])
    assert {np.iinfo(np.int64).min, np.iinfo(np.int64).max} <= set(found.tolist())
