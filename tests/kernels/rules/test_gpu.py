"""What is made of kernels for a GPU, as far as it can be seen without one.

That they compute the same was seen on a GPU: benchmarks.gpu_kernels, benchmarks.conformance --gpu.
"""

from __future__ import annotations

import os
import re
import shutil
import sys

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax, s_tir, te, tirx
from tvm.relax import op
from tvm.support.nvcc import compile_cuda

from tests.kernels.helpers import AVX2, CUDA, kernels, model
from tvm_hetero.errors import PlatformError
from tvm_hetero.frontends.onnx import from_onnx
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir import cuda_compiler
from tvm_hetero.kernels.tir.cuda_compiler import exact_cuda
from tvm_hetero.passes.lower_to_tasks import LowerToTasks


def source_of(kernel: tvm.tirx.PrimFunc) -> str:
    """What is handed to nvcc."""
    library = build(tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")}), CUDA)
    return str(library.imports[0].inspect_source())


def compiled_by_nvcc(source: str) -> None:
    """Have it compiled, where there is a compiler."""
    if shutil.which("nvcc"):
        with CUDA:
            compile_cuda(source, "cubin", "sm_90", compiler="nvcc")


def test_a_reduction_of_several_values_has_no_cross_thread_form():
    """TVM could not lower what dlight made of the index of the greatest value."""
    lowered = LowerToTasks(None)(model([(2, 40)], lambda x: op.argmax(x, axis=1)))
    for kernel in kernels(lowered).values():
        done = tvm.IRModule({"main": schedule_kernel(kernel, CUDA)})
        assert "threadIdx.x" in done.script()
        s_tir.transform.LowerCrossThreadReduction()(done)


def test_no_pointer_is_promised_to_be_alone():
    """nvcc read the sums, which the kernel had just written, past the coherent cache."""
    lowered = LowerToTasks(None)(model([(2, 40)], lambda x: op.argmax(x, axis=1)))
    (kernel,) = kernels(lowered).values()
    source = source_of(schedule_kernel(kernel, CUDA))
    assert "__global__" in source and "__restrict__" not in source


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_narrow_constants_that_are_not_finite_are_words_of_cuda(kind):
    """TVM writes the name of a function for NaN; an embedding of bfloat16 did not compile."""
    table = relax.const(np.ones((8, 4), kind))

    def rows(at):
        return op.take(table, op.astype(at, "int32"), axis=0)

    lowered = kernels(LowerToTasks([CUDA])(model([(3,)], rows)))
    (kernel,) = (kernel for name, kernel in lowered.items() if "take" in name)
    x, infinite = te.placeholder((3,), kind, "x"), tirx.const(float("inf"), kind)
    limited = te.compute((3,), lambda i: tirx.if_then_else(x[i] > 1, infinite, x[i]), "limited")
    other = te.create_prim_func([x, limited])
    for each, word in ((kernel, "NAN"), (other, "INF")):
        source = source_of(schedule_kernel(each, CUDA))
        assert word in source and not re.search(r"\b(nanf|inff)\b(?! *\*/)", source)
        compiled_by_nvcc(source)


def test_a_choice_by_a_condition_of_several_lanes_compiles():
    """Experts that are not asked for count nothing: TVM declared conditions as floats."""
    weight = relax.const(np.ones((48, 32), np.float32))

    def gated(x, gate):
        return op.where(
            op.not_equal(gate, relax.const(0.0)), op.matmul(x, weight), relax.const(0.0)
        )

    lowered = LowerToTasks([CUDA])(model([(4, 48), (4, 1)], gated))
    for kernel in kernels(lowered).values():
        source = source_of(schedule_kernel(kernel, CUDA))
        assert "make_ushort2" not in source
        compiled_by_nvcc(source)


@pytest.mark.parametrize("operator", ["TopK", "Unique", "Det"])
def test_what_goes_step_by_step_is_done_by_one_thread(operator):
    """It was a function of the host, which read the memory of the GPU: the process died."""
    (kernel,) = kernels(LowerToTasks([AVX2, CUDA])(single_node(operator))).values()
    done = schedule_kernel(kernel, CUDA)
    assert rule_of(done) == "one thread"
    for part in done.body.block.body.seq if operator == "Det" else [done.body.block.body]:
        assert "thread=" in part.script()
    source = source_of(done)  # what it allocates is no memory of a thread
    assert source.count("__global__") >= 2 and " local" not in source


def single_node(operator: str) -> tvm.IRModule:
    """A model of one node, on nine values."""
    inputs, results, given = ["x"], ["y"], {}
    kinds = {"y": TensorProto.FLOAT}
    if operator == "TopK":
        inputs, results, kinds = ["x", "k"], ["y", "i"], {**kinds, "i": TensorProto.INT64}
        given = {"k": np.array([2])}
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, results)],
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 3])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
        [onnx.numpy_helper.from_array(value, name) for name, value in given.items()],
    )
    return from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]))


@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_no_tensor_cores_which_no_check_looks_into(dtype, monkeypatch):
    """What dlight made of bytes did not compile; and TVM's intrinsics take 5 to 40 s to load."""
    monkeypatch.setitem(sys.modules, "tvm.s_tir.tensor_intrin", None)
    values = [relax.Var(name, relax.TensorType((96, 96), dtype)) for name in ("a", "b")]
    out = "int32" if dtype == "int8" else None
    builder = relax.BlockBuilder()
    with builder.function("main", values):
        with builder.dataflow():
            found = builder.emit_output(builder.normalize(op.matmul(*values, out_dtype=out)))
        builder.emit_func_output(found)
    (kernel,) = kernels(LowerToTasks([AVX2, CUDA])(builder.get())).values()
    done = schedule_kernel(kernel, CUDA)
    assert rule_of(done) == "dlight" and "wmma" not in done.script()
    assert "__shared__" in source_of(done)


def test_cuda_is_compiled_without_fast_mathematics(monkeypatch):
    names = ("TVM_CUDA_COMPILE_MODE", "TVM_CUDA_NVCC_NO_FAST_MATH")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    with exact_cuda(CUDA):
        assert [os.environ[name] for name in names] == ["nvcc", "1"]
        assert tvm.target.Target.current().attrs["arch"] == "sm_90"
    with exact_cuda(AVX2):
        assert not {*names} & os.environ.keys()
    monkeypatch.setenv(names[0], "nvrtc")  # who asks for it has it
    with exact_cuda(CUDA):
        assert os.environ[names[0]] == "nvrtc"
    assert os.environ[names[0]] == "nvrtc" and names[1] not in os.environ


def test_without_nvcc_it_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cuda_compiler, "_runtime_is_loaded", lambda: True)
    with (
        pytest.raises(PlatformError, match=r"nvcc, which is not on the PATH: install"),
        exact_cuda(CUDA),
    ):
        pass
