"""From a Relax model to kernels and views: the IR before and after, and real networks."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import tvm
import tvm_ffi
from tvm import relax
from tvm.ir import GenericConst

from tests.kernels.helpers import AVX2, AVX512, kernels, model, random, run, runs_here, scheduled
from tvm_hetero.errors import ModelError
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.passes.lower_to_tasks import LowerToTasks, is_lowered

op = relax.op


def small_net(x):
    """Two equal convolutions with bias and relu, a pool, a classifier."""
    for seed in (1, 2):
        weight = relax.const(random(seed, 16, 16, 3, 3))
        bias = op.reshape(relax.const(random(seed + 5, 16)), (1, 16, 1, 1))
        x = op.nn.relu(op.add(op.nn.conv2d(x, weight, padding=1), bias))
    x = op.reshape(op.nn.max_pool2d(x, (2, 2), (2, 2)), (1, 16 * 4 * 4))
    weight = op.permute_dims(relax.const(random(9, 10, 256)))
    return op.nn.softmax(op.matmul(x, weight))


@pytest.fixture(scope="module")
def before():
    return model([(1, 16, 8, 8)], small_net)


@pytest.fixture(scope="module")
def after(before):
    return LowerToTasks([AVX512, AVX2])(before)


def bindings(mod):
    (block,) = mod["main"].body.blocks
    assert isinstance(block, relax.DataflowBlock)
    return list(block.bindings)


def operators(mod):
    """What each binding is: the kernel's name, or the operator of a view."""
    values = [b.value for b in bindings(mod)]
    return [
        (v.args[0].name_hint if v.op.name == "relax.call_tir" else v.op.name)
        if isinstance(v, relax.Call)
        else type(v).__name__
        for v in values
    ]


def test_kernels_and_views(after):
    """Bias and relu are fused, the transposition folded, the flattening a view."""
    assert operators(after) == [
        "fused_conv2d_add_relu",
        "fused_conv2d_add_relu",  # equal kernels share one function
        "max_pool2d",
        "relax.reshape",
        "dense",
        "softmax",
    ]
    assert sorted(kernels(after)) == ["dense", "fused_conv2d_add_relu", "max_pool2d", "softmax"]


def test_kernels_are_not_scheduled_yet(after):
    for kernel in kernels(after).values():
        text = kernel.script()
        assert "T.vectorized" not in text
        assert "T.parallel" not in text
        assert "tirx.is_scheduled" not in kernel.attrs


def test_weights_are_constants_in_their_packed_layout(after):
    convolution = bindings(after)[0].value
    constants = [a for a in convolution.args[1].fields if isinstance(a, GenericConst)]
    assert [len(c.value.shape) for c in constants] == [5, 4]


def test_same_result(before, after):
    x = random(3, 1, 16, 8, 8)
    expected = run(before, tvm.target.Target("llvm"), x)
    for target in (AVX512, AVX2):
        if runs_here(target):
            actual = run(scheduled(after, target), target, x)
            np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-6)


def test_idempotent(after):
    again = LowerToTasks([AVX512, AVX2])(after)
    assert tvm_ffi.structural_equal(again, after)
    assert is_lowered(again)


def test_deterministic(before, after):
    again = LowerToTasks([AVX512, AVX2])(before)
    assert tvm_ffi.structural_equal(again, after)
    assert tvm_ffi.structural_hash(again) == tvm_ffi.structural_hash(after)


def test_the_input_is_not_changed(before):
    copy = model([(1, 16, 8, 8)], small_net)
    LowerToTasks(None)(before)
    assert tvm_ffi.structural_equal(before, copy)
    assert not is_lowered(before)


def test_attributes_of_main_are_kept(before):
    main = before["main"].with_attr("hetero_input_names", ["a/b:0"])
    lowered = LowerToTasks(None)(tvm.IRModule({"main": main}))
    assert list(lowered["main"].attrs["hetero_input_names"]) == ["a/b:0"]
    assert lowered["main"].attrs["global_symbol"] == "main"


def test_composes_and_is_seen_by_instruments(before):
    seen = []

    @tvm.instrument.pass_instrument
    class Names:
        def run_before_pass(self, _mod, info):
            seen.append(info.name)

    with tvm.transform.PassContext(instruments=[Names()]):
        lowered = tvm.transform.Sequential([LowerToTasks(None)])(before)
    assert is_lowered(lowered)
    assert "LowerToTasks" in seen


def test_target_decides_the_packing(before):
    """Without AVX-512 among the targets, blocks are vectors of 8."""

    def blocks(targets):
        kernel = kernels(LowerToTasks(targets)(before))["fused_conv2d_add_relu"]
        return next(int(p.shape[4]) for p in kernel.params if len(p.shape) == 5)

    assert blocks([AVX512, AVX2]) % 16 == 0
    assert blocks([AVX2]) % 8 == 0
    assert blocks([AVX512, AVX2]) == blocks([AVX2, AVX512])


def test_powers_of_quarters_become_roots():
    for exponent in (0.75, 0.5, 0.25, 2.0, 3.25, -0.5, -1.0):
        mod = model([(4, 5)], lambda x, e=exponent: op.power(op.abs(x), relax.const(e)))
        lowered = LowerToTasks([AVX2])(mod)
        assert all("T.pow" not in k.script() for k in kernels(lowered).values())
        x = random(0, 4, 5)
        actual = run(scheduled(lowered, AVX2), AVX2, x)
        np.testing.assert_allclose(actual, np.abs(x) ** np.float32(exponent), rtol=1e-6)


def test_other_powers_stay():
    mod = LowerToTasks([AVX2])(model([(4, 5)], lambda x: op.power(x, relax.const(0.3))))
    assert any("T.pow" in k.script() for k in kernels(mod).values())


def test_batch_norm_is_one_multiply_and_one_add():
    gamma, beta, mean = (relax.const(random(i, 6)) for i in range(3))
    variance = relax.const(np.abs(random(4, 6)) + 0.5)
    statistics = (gamma, beta, mean, variance)

    def body(x):
        return relax.TupleGetItem(op.nn.batch_norm(x, *statistics, axis=1, training=False), 0)

    mod = model([(2, 6, 5, 5)], body)
    lowered = LowerToTasks([AVX2])(mod)
    assert operators(lowered) == ["fused_multiply_add"]
    x = random(8, 2, 6, 5, 5)
    shape = (1, 6, 1, 1)
    g, b, m, v = (c.value.numpy().reshape(shape) for c in statistics)
    expected = (x - m) / np.sqrt(v + 1e-5) * g + b
    actual = run(scheduled(lowered, AVX2), AVX2, x)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_bounds_that_may_not_be_numbers_are_settled_before_a_kernel_is_chosen():
    """As TVM imports a Clip with operands for bounds, which is ReLU6 in every newer ONNX file."""
    weight = relax.const(random(1, 32, 8, 1, 1))

    def bound(value, instead):
        return op.where(op.isnan(relax.const(value)), relax.const(instead), relax.const(value))

    def body(x):
        y = op.nn.conv2d(x, weight)
        return op.minimum(op.maximum(y, bound(0.0, -np.inf)), bound(np.nan, np.inf))

    mod = model([(1, 8, 6, 6)], body)
    lowered = LowerToTasks([AVX2])(mod)
    ((_, kernel),) = kernels(scheduled(lowered, AVX2)).items()
    assert rule_of(kernel) == "packed"
    x = random(0, 1, 8, 6, 6)
    expected = np.einsum("oi,nihw->nohw", weight.value.numpy()[:, :, 0, 0], x).clip(0)
    actual = run(scheduled(lowered, AVX2), AVX2, x)
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_module_without_main():
    with pytest.raises(ModelError, match=r"functions \['other'\]; one named 'main'"):
        LowerToTasks(None)(tvm.IRModule({"other": model([(2,)], op.nn.relu)["main"]}))


def test_a_real_network_equals_onnxruntime():
    """Grouped, depthwise, padded and strided convolutions as they occur; before the softmax."""
    onnx_frontend = pytest.importorskip("tvm_hetero.frontends.onnx")
    path = onnx_frontend.light_models()["shufflenet"]
    proto = onnx_frontend.simplify(
        onnx_frontend.randomize_weights(onnx_frontend.load_model(path), 0)
    )
    softmax = next(n for n in proto.graph.node if n.op_type == "Softmax")
    logits = softmax.input[0]
    kept = proto.graph.node[: list(proto.graph.node).index(softmax)]
    nodes = [type(n).FromString(n.SerializeToString()) for n in kept]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    del proto.graph.output[1:]
    proto.graph.output[0].name = logits
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    x = np.random.default_rng(0).random(session.get_inputs()[0].shape, dtype=np.float32)
    expected = session.run(None, {session.get_inputs()[0].name: x})[0]
    from tvm.relax.frontend.onnx import from_onnx

    lowered = LowerToTasks([AVX512, AVX2])(from_onnx(proto))
    target = AVX512 if runs_here(AVX512) else AVX2
    actual = run(scheduled(lowered, target), target, x).reshape(expected.shape)
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3 * float(expected.std()))
    assert expected.std() > 0


def test_a_long_network_is_lowered_on_a_stack_of_its_own() -> None:
    # 1000 steps of a loop, 12000 kernels, overran the main thread's 8 MiB in FuseOps: too long for
    # a test. Errors and the pass context must come through as they do otherwise.
    length = 2500
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            value = x
            for _ in range(length):
                value = builder.emit(op.tanh(value))
            value = builder.emit_output(value)
        builder.emit_func_output(value)
    seen: list[str] = []

    @tvm.ir.instrument.pass_instrument
    class Notes:
        def run_after_pass(self, _mod, info) -> None:
            seen.append(str(info.name))

    with tvm.transform.PassContext(instruments=[Notes()]):
        lowered = LowerToTasks([AVX2])(builder.get())
    assert is_lowered(lowered)
    assert "FuseOps" in seen
