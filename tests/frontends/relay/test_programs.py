"""Whole Relay programs: what a real TVM saved, and what is in no network of ours."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.frontends.relay.cases import normal, run
from tests.frontends.relay.models import DATA, NAMES, recorded, unlike_cpus
from tests.models import two_cpus
from tvm_hetero import relay
from tvm_hetero.compiler.build import build
from tvm_hetero.errors import ModelError, PlatformError, UsageError
from tvm_hetero.executor.executor import Executor
from tvm_hetero.frontends.relay.flatten import flatten
from tvm_hetero.frontends.relay.read import read
from tvm_hetero.passes.attributes import WISHES
from tvm_hetero.pipeline.options import PartitionOptions
from tvm_hetero.pipeline.partition import partition

X = normal(1, 4)


def program(body: str, params: str = "%x: Tensor[(1, 4), float32]", extra: str = "") -> str:
    return f'#[version = "0.0.5"]\n{extra}def @main({params}) {{\n{body}\n}}\n'


def result(text: str, **inputs: np.ndarray) -> list[np.ndarray]:
    return run(relay.frontend.from_text(text), inputs or {"x": X})


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_program_on_two_unlike_devices(name: str) -> None:
    path, params, expected = recorded(name)
    data = params.pop("data")
    platform = unlike_cpus()
    together = relay.transform.HeteroPartition(
        platform=platform, cost_model="analytical", solver="heft"
    )
    module = together(relay.frontend.from_json(path, params))
    with Executor(build(module), "partition") as executor:
        (output,) = executor.run({"data": data})
    np.testing.assert_allclose(output.numpy(), expected, rtol=1e-4, atol=1e-4 * expected.max())


def test_text_and_json_are_the_same_program() -> None:
    text, json = (flatten(read(DATA / f"mlp.relay.{kind}")[0]) for kind in ("txt", "json"))
    assert [s.operator for s in text.steps] == [s.operator for s in json.steps]
    assert [s.type for s in text.steps] == [s.type for s in json.steps]
    assert [i.var.type for i in text.inputs] == [i.var.type for i in json.inputs]


def test_parameters_without_a_value_stay_inputs() -> None:
    path, params, _ = recorded("mlp")
    kept = relay.frontend.from_json(path)["main"]
    assert [p.name for p in kept.params] == list(params)
    some = relay.frontend.from_json(path, {"fc1_bias": params["fc1_bias"]})["main"]
    assert [str(n) for n in some.attrs["hetero_input_names"]] == [
        name for name in params if name != "fc1_bias"
    ]


def test_parameters_are_checked() -> None:
    path, params, _ = recorded("mlp")
    with pytest.raises(UsageError, match="did you mean 'fc1_bias'"):
        relay.frontend.from_json(path, {"fc1_bia": params["fc1_bias"]})
    with pytest.raises(UsageError, match=r"Tensor\[\(128\), float32\] .* \[64\]"):
        relay.frontend.from_json(path, {"fc1_bias": params["fc2_bias"]})
    with pytest.raises(UsageError, match="float64"):
        relay.frontend.from_json(path, {"fc1_bias": params["fc1_bias"].astype("float64")})


def test_functions_tuples_and_lets() -> None:
    extra = """
def @twice(%a: Tensor[(1, 4), float32], %b: Tensor[(1, 4), float32]) {
  let %s = add(%a, %b);
  (%s, multiply(%s, %s))
}
"""
    body = """
  %0 = @twice(%x, %x);
  %1 = fn (%y: Tensor[(1, 4), float32], Primitive=1) -> Tensor[(1, 4), float32] {
    %2 = subtract(%y, %0.0);
    exp(%2)
  };
  let %f = %1;
  let %t = (%f(%0.1), (%x, %0.0));
  let %u: Tensor[(1, 4), float32] /* ty=Tensor[(1, 4), float32] */ = %t.1.0;
  (%t.0, add(%u, 1f), %t.1.1)
"""
    found = result(program(body, extra=extra))
    double = X + X
    for output, expected in zip(found, (np.exp(double**2 - double), X + 1, double), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-5)


def test_a_cell_of_an_lstm_as_relay_testing_builds_it() -> None:
    params = ", ".join(
        f"%{n}: Tensor[{s}, float32]"
        for n, s in (("x", "(1, 4)"), ("c", "(1, 3)"), ("h", "(1, 3)"), ("w", "(12, 4)"),
                     ("u", "(12, 3)"))
    )  # fmt: skip
    body = """
  %0 = add(nn.dense(%x, %w, units=12), nn.dense(%h, %u, units=12));
  %1 = split(%0, indices_or_sections=4, axis=1);
  %2 = multiply(sigmoid(%1.1), %c);
  %3 = add(%2, multiply(sigmoid(%1.0), tanh(%1.2)));
  %4 = multiply(sigmoid(%1.3), tanh(%3));
  %5 = (%4, %3);
  (%4, %5)
"""
    w, u, c, h = normal(12, 4, seed=1), normal(12, 3, seed=2), normal(1, 3), normal(1, 3, seed=4)
    found = result(program(body, params), x=X, c=c, h=h, w=w, u=u)
    i, f, g, o = np.split(X @ w.T + h @ u.T, 4, axis=1)
    cell = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
    hidden = np.tanh(cell) / (1 + np.exp(-o))
    for output, expected in zip(found, (hidden, hidden, cell), strict=True):
        np.testing.assert_allclose(output, expected, rtol=1e-5, atol=1e-6)


def test_a_function_of_a_tuple_within_a_function() -> None:
    """As `relay.testing.lstm` hands states from step to step."""
    one, pair = "Tensor[(1, 4), float32]", "(Tensor[(1, 4), float32], Tensor[(1, 4), float32])"
    body = f"""
  let %zeros: {one} = zeros(shape=[1, 4], dtype="float32") /* ty={one} */;
  %0 = fn (%i: {one} /* ty={one} span=a.py:1:2 */, %states: {pair}) -> ({one}, {pair}) {{
    let %s = split(concatenate((%i, %i), axis=1), indices_or_sections=2, axis=1) /* ty={pair} */;
    let %o: {one} = %s.0;
    (%o, (%s.1, add(%states.1, %o)))
  }} /* ty=fn ({one}, {pair}) -> ({one}, {pair}) */;
  let %first = %0(%x, (%zeros, %zeros)) /* ty=({one}, {pair}) */;
  let %states: {pair} = %first.1;
  let %second = %0(%first.0, %states);
  (%second.0, %second.1.1)
"""
    for output, expected in zip(result(program(body)), (X, X + X), strict=True):
        np.testing.assert_array_equal(output, expected)


def test_a_lone_expression_is_a_function_of_its_free_variables() -> None:
    text = '#[version = "0.0.5"]\nfree_var %a: Tensor[(1, 4), float32];\nadd(%a, 1f)\n'
    np.testing.assert_array_equal(result(text, a=X)[0], X + 1)


def test_thousands_of_calls_deep() -> None:
    lines = [f"  %{i + 1} = add(%{i}, 1f);" for i in range(3000)]
    text = program("  %0 = negative(%x);\n" + "\n".join(lines) + "\n  %3000")
    lets = [f"let %v{i + 1} = add(%v{i}, 1f);" for i in range(3000)]
    chain = program("let %v0 = negative(%x);\n" + "\n".join(lets) + "\n%v3000")
    assert [len(flatten(read(t)[0]).steps) for t in (text, chain)] == [3001, 3001]


REFUSED = {
    "unknown operator": ("nn.frobnicate(%x)", "line 3.*nn.frobnicate.* is not supported"),
    "unknown attribute": ("nn.softmax(%x, flavour=1)", "attribute 'flavour'"),
    "attribute of another value": (
        'nn.conv2d(reshape(%x, newshape=[1, 1, 2, 2]), %x, data_layout="NCHW4c")', "NCHW4c"),
    "recursion": ("@main(%x)", "calls itself"),
    "missing function": ("@other(%x)", "calls '@other'"),
    "control flow": ("if (%x) { %x } else { %x }", "'if' is not supported"),
    "a function as result": ("fn (%y) { %y }", "returns a function"),
    "undefined": ("add(%x, %nowhere)", "%nowhere is not defined"),
    "too many fields": ("(%x, %x).2", "field 2 of a tuple of 2"),
    "wrong type in the file": (
        "add(%x, %x) /* ty=Tensor[(1, 5), float32] */", r"the file says .*\(1, 5\).* damaged"),
    "operands that do not fit": (
        "nn.dense(%x, %x, units=7)", "units=7, but the weights are"),
    "mask of a dropout": ("nn.dropout(%x).1", "output 1 of nn.dropout is not computed"),
    "constants without metadata": (
        "add(%x, meta[relay.Constant][0])", "show_meta_data=True"),
    "a rank that fills the memory": (
        "expand_dims(%x, axis=0, num_newaxis=2147483647)", "num_newaxis is 2147483647"),
    "a constant that fills the memory": (
        'zeros(shape=[2147483647, 4096], dtype="float32")', "the number of values is"),
    "a tensor that no machine has": ("tile(%x, reps=[2147483647, 1024])", "values"),
    "an argument too few": ("add(%x)", "1 arguments, expected 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    body, message = REFUSED[case]
    with pytest.raises(ModelError, match=message) as caught:
        relay.frontend.from_text(program("  " + body))
    assert str(caught.value).isprintable()


def test_functions_that_double_are_counted() -> None:
    kind = "%a: Tensor[(1, 4), float32]"
    levels = [f"def @f0({kind}) {{ negative(%a) }}\n"]
    levels += [f"def @f{i + 1}({kind}) {{ @f{i}(@f{i}(%a)) }}\n" for i in range(40)]
    with pytest.raises(ModelError, match="more than 20000"):
        flatten(read(program("  @f40(%x)", extra="".join(levels)))[0])


ANNOTATED = """
  %0 = nn.relu(nn.conv2d(%x, %w, padding=[1, 1]));
  %1 = on_device(%0, virtual_device=VirtualDevice(device_type=1, virtual_device_id=1));
  %2 = nn.conv2d(%1, %w, padding=[1, 1]);
  %3 = on_device(%2, virtual_device=VirtualDevice(device_type=1, virtual_device_id=0));
  nn.max_pool2d(nn.relu(%3), pool_size=[2, 2])
"""
IMAGE = "%x: Tensor[(1, 8, 8, 8), float32], %w: Tensor[(8, 8, 3, 3), float32]"


def annotated(body: str = ANNOTATED) -> tvm.IRModule:
    return relay.frontend.from_text(program(body, IMAGE), {"w": normal(8, 8, 3, 3)})


def test_annotations_are_a_wish() -> None:
    module = annotated()
    assert str(module["main"].attrs[WISHES]).count("[1, ") == 2
    operators = [
        b.value.op.name
        for block in module["main"].body.blocks
        for b in block.bindings
        if isinstance(b.value, relax.Call)
    ]
    assert operators == [
        "relax.nn.conv2d", "relax.nn.relu", "relax.nn.conv2d", "relax.nn.relu",
        "relax.nn.max_pool2d",
    ]  # fmt: skip


def test_annotations_that_are_respected_pin() -> None:
    platform = unlike_cpus()
    big, little = platform.names
    free = partition(annotated(), platform, PartitionOptions(cost_model="analytical"))
    assert {d for devices in free.schedule.placement.values() for d in devices} == {big}
    pinned = partition(
        annotated(), platform, PartitionOptions(cost_model="analytical", respect_annotations=True)
    )
    on = {task.split(".")[1]: d for task, (d,) in pinned.schedule.placement.items()}
    assert on["fused_conv2d_relu"] == little and on["conv2d"] == big
    x = normal(1, 8, 8, 8)
    with Executor(build(pinned.module), "partition") as executor:
        (output,) = executor.run({"x": x})
    np.testing.assert_allclose(output.numpy(), run(annotated(), {"x": x})[0], rtol=1e-4, atol=1e-4)


CPU = "virtual_device=VirtualDevice(device_type=1, virtual_device_id=1)"
UNHEEDED = {
    f"exp(on_device(negative(%x), {CPU}, constrain_result=True, constrain_body=False))": (
        "constrain_result", 0),
    f"exp(on_device(negative(%x), {CPU}, constrain_result=True))": ("constrain_result", 1),
    f"exp(on_device(negative(%x), {CPU}, constrain_body=False))": ("on_device", 0),
    f"exp(device_copy(negative(%x), src_{CPU}, dst_{CPU}))": ("the target of device_copy", 1),
}  # fmt: skip


@pytest.mark.parametrize("body", UNHEEDED)
def test_what_is_said_of_those_who_read_a_value_is_a_warning(body: str) -> None:
    what, wishes = UNHEEDED[body]
    with pytest.warns(UserWarning, match=rf"line 3.*{what}.*not taken over"):
        module = relay.frontend.from_text(program("  " + body))
    attrs = module["main"].attrs
    assert (str(attrs[WISHES]).count("[1, 1]") if WISHES in attrs else 0) == wishes


def test_devices_of_parameters_are_a_warning() -> None:
    kind = "Tensor[(1, 4), float32]"
    text = program("  exp(%x)", f"%x {{{CPU}}}: {kind}")
    with pytest.warns(UserWarning, match="main: virtual_device of 'x'.*not taken over"):
        module = relay.frontend.from_text(text)
    assert WISHES not in module["main"].attrs


def test_other_annotations_are_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        annotated()


def test_a_wish_for_what_is_not_there() -> None:
    body = ANNOTATED.replace("device_type=1, virtual_device_id=1", "device_type=2")
    with pytest.raises(PlatformError, match="DLPack type 2"):
        partition(
            annotated(body),
            two_cpus(),
            PartitionOptions(cost_model=Flat(), respect_annotations=True),
        )


class Flat:
    """A cost model to which everything costs the same."""

    name = "flat"

    def costs(self, kernels, platform, progress=None):
        from tvm_hetero.problem import Cost

        row = {name: Cost(((1, 1e-3),)) for name in platform.names}
        return {kernel.name: row for kernel in kernels}
