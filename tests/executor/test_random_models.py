"""Whatever a model looks like: cut, placed, saved and run, it is the model that TVM compiles."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tvm
import tvm_ffi
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tvm import relax

import tvm_hetero as th
from tests.draws import draws
from tests.frontends.onnx.models import two_branches
from tests.kernels.helpers import REFERENCE
from tests.models import lowered, random_schedule, teams_of_cpus, two_cpus, unit_problem, with_sizes
from tests.random_models import Program, make_module, programs, random_inputs
from tvm_hetero.compiler.build import build
from tvm_hetero.compiler.reference_vm import ReferenceVM
from tvm_hetero.errors import ModelError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.passes.annotate_devices import annotate_devices, strip_devices
from tvm_hetero.passes.placed_model import problem_and_schedule
from tvm_hetero.passes.split_segments import split_segments

PLATFORM = two_cpus()
# The same with a memory of its own for the second device: what it reads and makes is copied.
BIG, LITTLE = PLATFORM.devices
APART = replace(PLATFORM, devices=(BIG, replace(LITTLE, private=True)))
# Their cores as a third device, which excludes the two.
TEAMS = PLATFORM if BIG.cores == LITTLE.cores else teams_of_cpus()


def place(module: tvm.IRModule, seed: int, batch: int = 1) -> tvm.IRModule:
    """`module` lowered and placed at random, its batch divided at random, some of it at once."""
    platform = (APART, TEAMS, PLATFORM)[seed % 3]
    module = lowered(module, platform)
    problem = with_sizes(unit_problem(module, platform, batch), module, seed)
    return annotate_devices(module, problem, random_schedule(problem, seed))


def stock(module: tvm.IRModule, *elements: list[np.ndarray]) -> list[list[np.ndarray]]:
    """What the model gives for each element as TVM compiles it by itself."""
    main = relax.VirtualMachine(tvm.compile(module, REFERENCE), tvm.cpu())["main"]
    results = [main(*[tvm.runtime.tensor(value) for value in inputs]) for inputs in elements]
    return [[out.numpy() for out in ([r] if hasattr(r, "numpy") else r)] for r in results]


def assert_close(got: np.ndarray, expected: np.ndarray) -> None:
    """Equal, but for how sums are rounded."""
    limit = 2e-2 if expected.dtype == np.float16 else 2e-3
    np.testing.assert_allclose(
        got.astype("float64"), expected.astype("float64"), rtol=limit, atol=limit
    )


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


def place_if_it_computes(module, seed, batch=1):
    """`module` placed at random; None for a model without a kernel, which is refused as such."""
    try:
        return place(module, seed, batch)
    except ModelError as error:
        assert "computes nothing" in str(error)
        return None


def with_found(test):
    """Examples that always run."""
    for program, seed in FOUND:
        test = example(program=program, seed=seed)(test)
    return test


@settings(max_examples=draws(14), deadline=None)
@with_found
@given(program=programs(), seed=st.integers(0, 10**6))
def test_cut_placed_and_run_it_is_the_model(program, seed):
    module = make_module(program)
    placed = place_if_it_computes(module, seed)
    if placed is None:
        return
    inputs = random_inputs(program, seed)
    with Executor(build(placed, single=False)) as executor:
        named = {info.name: value for info, value in zip(executor.inputs, inputs, strict=True)}
        twice = [executor.run(named), executor.run(named), *executor.map([named, named])]
    for outputs in twice[1:]:
        for out, first in zip(outputs, twice[0], strict=True):
            assert out.numpy().tobytes() == first.numpy().tobytes()
    for out, expected in zip(twice[0], *stock(module, inputs), strict=True):
        assert (out.numpy().shape, out.numpy().dtype) == (expected.shape, expected.dtype)
        assert_close(out.numpy(), expected)
    reference = ReferenceVM(placed).run(*inputs)
    assert [out.numpy().tobytes() for out in twice[0]] == [r.tobytes() for r in reference]


@settings(max_examples=draws(6), deadline=None)
@with_found
@given(program=programs(), seed=st.integers(0, 10**6))
def test_a_batch_divided_at_random_is_the_model_for_each_element(program, seed):
    module, batch = make_module(program), 2 + seed % 2
    placed = place_if_it_computes(module, seed, batch)
    if placed is None:
        return
    elements = [random_inputs(program, seed + element) for element in range(batch)]
    stacked = [np.stack(values) for values in zip(*elements, strict=True)]
    with Executor(build(placed, single=False)) as executor:
        named = {info.name: value for info, value in zip(executor.inputs, stacked, strict=True)}
        outputs = [out.numpy() for out in executor.run(named)]
    reference = ReferenceVM(placed).run(*[value for inputs in elements for value in inputs])
    for element, alone in enumerate(stock(module, *elements)):
        own = reference[element * len(outputs) : (element + 1) * len(outputs)]
        for out, of_vm, expected in zip(outputs, own, alone, strict=True):
            assert out[element].tobytes() == of_vm.tobytes()
            assert (out.shape, out.dtype) == ((batch, *expected.shape), expected.dtype)
            assert_close(out[element], expected)


def test_elements_of_a_batch_equal_onnxruntime():
    session = onnxruntime.InferenceSession(two_branches().SerializeToString())
    images = np.random.default_rng(0).standard_normal((3, 1, 8, 12, 12)).astype("float32")
    placed = place(from_onnx(two_branches()), 5, batch=3)
    _, schedule = problem_and_schedule(placed)
    assert any(len(devices) == 2 for devices in schedule.placement.values()), "nothing is divided"
    with Executor(build(placed, single=False)) as executor:
        (stacked,) = executor.run(x=images)
        (merged,) = executor.run(x=images.reshape(3, 8, 12, 12))
    expected = np.stack([session.run(None, {"x": image})[0] for image in images])
    np.testing.assert_allclose(stacked.numpy(), expected, rtol=1e-4, atol=1e-5)
    assert merged.numpy().tobytes() == stacked.numpy().tobytes()
    assert merged.numpy().shape == (3, 16, 12, 12)


@settings(max_examples=draws(25), deadline=None)
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


@settings(max_examples=draws(10), deadline=None)
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
        with Executor(one) as before, th.load(Path(folder) / "net.hetero") as after:
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
