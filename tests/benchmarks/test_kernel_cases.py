"""The cases of the kernel benchmark are what they say, and a wrong result does not pass."""

from __future__ import annotations

import math

import numpy as np
import onnx
import pytest

from benchmarks.kernel_cases import FAMILIES
from benchmarks.kernel_cases.blocked import to_blocks, to_planes
from benchmarks.kernel_cases.case import moved
from benchmarks.kernel_cases.contest import TOLERANCE, batches, relative_error
from benchmarks.kernel_cases.networks import operators
from benchmarks.kernel_cases.peaks import measure_peaks
from benchmarks.performance import geometric_mean
from tvm_hetero.frontends.onnx import light_models


@pytest.mark.parametrize("family", FAMILIES)
def test_names_are_unique_and_work_is_positive(family):
    cases = FAMILIES[family].cases()
    assert len({case.name for case in cases}) == len(cases)
    assert all(case.work > 0 and case.where for case in cases)
    assert sum(len(batch) for batch in batches(cases)) == len(cases)


def test_every_convolution_of_the_light_models_is_a_case_with_its_work():
    """2 x weights x points, by the shapes that ONNX infers."""
    cases = [case for f in ("conv2d", "pointwise", "grouped", "depthwise")
             for case in FAMILIES[f].cases()]  # fmt: skip
    found = {(case.inputs["x"], case.weights["w"], case.work) for case in cases}
    for op in operators("Conv"):
        work = 2.0 * math.prod(op.shapes[1]) * math.prod(op.output[2:])
        assert (op.shapes[0], op.shapes[1], work) in found
    assert {op.model for op in operators("Conv")} == set(light_models())


def test_measuring_peaks_leaves_the_smallest_numbers_alone():
    """A library linked with -ffast-math would flush them to zero, in the whole process."""
    measure_peaks()
    assert np.finfo(np.float64).smallest_subnormal / 1 > 0
    assert float.fromhex("0x1p-1060") * 0.5 > 0


def test_what_bytes_bind_counts_what_is_read_and_written():
    for case in FAMILIES["transpose"].cases():
        model = onnx.shape_inference.infer_shapes(case.model())
        (output,) = model.graph.output
        shape = tuple(d.dim_value for d in output.type.tensor_type.shape.dim)
        assert case.work == moved(*case.inputs.values(), shape)


def test_errors():
    expected = np.array([1.0, 2.0, 4.0])
    assert relative_error(expected.copy(), expected) == 0
    assert relative_error(expected + 0.1, expected) > TOLERANCE
    assert relative_error(np.array([1.0, np.nan, 4.0]), expected) == math.inf
    assert relative_error(np.ones(4), expected) == math.inf


@pytest.mark.parametrize(("channels", "block"), [(3, 1), (3, 16), (32, 1), (32, 16)])
def test_blocks_and_back(channels, block):
    x = np.arange(channels * 20, dtype=np.float32).reshape(1, channels, 4, 5)
    assert np.array_equal(to_planes(to_blocks(x, block), channels), x)


def test_geometric_mean():
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1)
