"""A module whose weights are left out and bound again is the module."""

from __future__ import annotations

import math

import pytest
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.models import dense, lowered, random_schedule, two_cpus, unit_problem
from tests.random_models import make_module, programs
from tvm_hetero.compiler.module_text import module_from_text, module_text
from tvm_hetero.errors import FormatError
from tvm_hetero.passes.annotate_devices import annotate_devices
from tvm_hetero.passes.lowered_main import read_main
from tvm_hetero.passes.split_segments import constant_names, split_segments

PLATFORM = two_cpus()


@settings(max_examples=draws(8))
@given(program=programs(), seed=st.integers(0, 10**6))
def test_read_again_it_is_placed_as_before(program, seed):
    module = lowered(make_module(program), PLATFORM)
    main = read_main(module)
    if not main.calls:
        return
    weights = {name: value.numpy() for value, name in constant_names(main).items()}
    text = module_text(module)
    again = module_from_text(text, weights)
    assert read_main(again).task_ids == main.task_ids
    problem = unit_problem(module, PLATFORM)
    assert unit_problem(again, PLATFORM).digest == problem.digest
    schedule = random_schedule(problem, seed)
    splits = [split_segments(annotate_devices(m, problem, schedule)) for m in (module, again)]
    assert splits[0].symbols == splits[1].symbols
    for device, kernels in splits[0].modules.items():
        assert tvm_ffi.structural_equal(kernels, splits[1].modules[device])
    assert splits[0].constants.keys() == splits[1].constants.keys() <= weights.keys()


def test_weights_are_not_in_the_text_and_are_asked_for():
    module = lowered(dense(512, 512, 512), PLATFORM)
    size = sum(4 * math.prod(value.shape) for value in constant_names(read_main(module)))
    text = module_text(module)
    assert len(text) < size / 4
    with pytest.raises(FormatError, match="there is no weight"):
        module_from_text(text, {})
    with pytest.raises(FormatError, match="module/1"):
        module_from_text(text.replace("module/1", "module/9", 1), {})
