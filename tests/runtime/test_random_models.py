"""Whatever a model looks like: cut, placed, saved and run, it is the model that TVM compiles."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax

import tvm_hetero as th
from tests.models import lowered, random_schedule, two_cpus, unit_problem
from tests.random_models import Program, make_module, programs, random_inputs
from tvm_hetero.errors import ModelError
from tvm_hetero.passes.annotate_devices import annotate_devices, strip_devices
from tvm_hetero.passes.split_segments import split_segments
from tvm_hetero.runtime.compile import build
from tvm_hetero.runtime.reference import ReferenceVM

PLATFORM = two_cpus()


def place(module: tvm.IRModule, seed: int) -> tvm.IRModule:
    """`module` lowered and placed at random."""
    module = lowered(module, PLATFORM)
    problem = unit_problem(module, PLATFORM)
    return annotate_devices(module, problem, random_schedule(problem, seed))


def stock(module: tvm.IRModule, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What the model gives as TVM compiles it by itself."""
    vm = relax.VirtualMachine(tvm.compile(module, "llvm"), tvm.cpu())
    result = vm["main"](*[tvm.runtime.tensor(value) for value in inputs])
    return [out.numpy() for out in ([result] if hasattr(result, "numpy") else result)]


# What broke once: a reshape that two variables name; a scalar that folds; a scalar output; all
# outputs of a kernel as the tuple that it makes.
FOUND = (
    (
        Program(
            (1, 1),
            ((12, 0, 13), (20, 3, 16), (2, 5, 1), (4, 4, 13), (17, 3, 17), (8, 4, 1)),
            (3, 4),
            2,
        ),
        398760,
    ),
    (Program((6,), ((18, 0, 0), (2, 0, 0)), (0,), 1), 0),
    (Program((6,), ((0, 0, 0),), (0,), 0), 0),
    (Program((0,), ((1, 0, 0),), (0,), 3), 0),
)


def place_if_it_computes(module, seed):
    """`module` placed at random; None for a model without a kernel, which is refused as such."""
    try:
        return place(module, seed)
    except ModelError as error:
        assert "computes nothing" in str(error)
        return None


def with_found(test):
    """Examples that always run."""
    for program, seed in FOUND:
        test = example(program=program, seed=seed)(test)
    return test


@settings(max_examples=40, deadline=None)
@with_found
@given(program=programs(), seed=st.integers(0, 10**6))
def test_cut_placed_and_run_it_is_the_model(program, seed):
    module = make_module(program)
    placed = place_if_it_computes(module, seed)
    if placed is None:
        return
    inputs = random_inputs(program, seed)
    with build(placed, single=False).executor() as executor:
        named = {info.name: value for info, value in zip(executor.inputs, inputs, strict=True)}
        twice = [executor.run(named), executor.run(named), *executor.map([named, named])]
    for outputs in twice[1:]:
        for out, first in zip(outputs, twice[0], strict=True):
            assert out.numpy().tobytes() == first.numpy().tobytes()
    for out, expected in zip(twice[0], stock(module, inputs), strict=True):
        assert (out.numpy().shape, out.numpy().dtype) == (expected.shape, expected.dtype)
        limit = 2e-2 if expected.dtype == np.float16 else 2e-3
        np.testing.assert_allclose(
            out.numpy().astype("float64"), expected.astype("float64"), rtol=limit, atol=limit
        )
    reference = ReferenceVM(placed).run(*inputs)
    assert [out.numpy().tobytes() for out in twice[0]] == [r.tobytes() for r in reference]


@settings(max_examples=40, deadline=None)
@with_found
@given(program=programs(), seed=st.integers(0, 10**6))
def test_placed_it_is_well_formed_and_stripping_undoes_it(program, seed):
    module = make_module(program)
    placed = place_if_it_computes(module, seed)
    if placed is None:
        return
    relax.analysis.well_formed(placed)  # raises if it is not
    plain = strip_devices(lowered(module, PLATFORM))
    assert tvm_ffi.structural_equal(strip_devices(placed), plain)
    split = split_segments(placed)
    calls = sorted(i for segment in split.segments for i in segment.calls)
    assert calls == list(range(len(split.main.calls)))
    for device_module in split.modules.values():
        relax.analysis.well_formed(device_module)
    made = {root for segment in split.segments for root in segment.outs}
    assert all(root.call is None or root in made for root, _, _ in split.results)


@settings(max_examples=10, deadline=None)
@given(program=programs(), seed=st.integers(0, 10**6))
def test_built_twice_saved_and_loaded_it_is_the_same(program, seed):
    try:
        placed = place(make_module(program), seed)
    except ModelError as error:
        assert "computes nothing" in str(error)
        return
    one, other = build(placed), build(place(make_module(program), seed))
    assert one.variants == other.variants  # plans, tasks, and libraries by their content's key
    named = dict(enumerate(random_inputs(program, seed)))
    with tempfile.TemporaryDirectory() as folder:
        one.save(Path(folder) / "net.hetero")
        with one.executor() as before, th.load(Path(folder) / "net.hetero") as after:
            values = {info.name: named[i] for i, info in enumerate(before.inputs)}
            assert before.inputs == after.inputs
            assert [out.numpy().tobytes() for out in before.run(values)] == [
                out.numpy().tobytes() for out in after.run(values)
            ]


def test_a_tuple_in_a_tuple_is_refused_by_its_number():
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            soft = builder.emit(relax.op.nn.softmax(x))
            out = builder.emit_output(relax.Tuple([soft, relax.Tuple([soft])]))
        builder.emit_func_output(out)
    with pytest.raises(ModelError, match=r"output 1 of the model is a .*Tuple.*one by one"):
        place(builder.get(), 0)


def test_packed_types_are_refused_by_name():
    x = relax.Var("x", relax.TensorType((4,), "int4"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            out = builder.emit_output(relax.op.add(x, x))
        builder.emit_func_output(out)
    with pytest.raises(ModelError, match=r"type int4.*no whole bytes"):
        place(builder.get(), 0)
