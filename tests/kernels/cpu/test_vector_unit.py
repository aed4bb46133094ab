"""Which facts a target has, and what asking ahead (`prefetch`) depends on."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import pytest
import tvm
from tvm import relax

from tests.kernels.helpers import AMX, AVX2, AVX512, PAIRS, SSE, ZEN4, kernels, model, random
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.attention.kernel import attend, attention_of
from tvm_hetero.kernels.attention.query_block import sizes_of
from tvm_hetero.kernels.convolution.packing import packing_units
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.kernels.quantized.product import groupwise_dense, quantize
from tvm_hetero.kernels.tir.prefetch import ALL, OUTER
from tvm_hetero.passes.lower_to_tasks import LowerToTasks

ZEN4_OF_AVX2 = tvm.target.Target({"kind": "llvm", "mcpu": "znver4", "mattr": ["-avx512f"]})


def test_a_known_cpu_has_its_own_facts_unless_its_features_are_changed():
    assert [vector_unit(t).bits for t in (AVX512, AVX2, SSE)] == [512, 256, 128]
    known = replace(vector_unit(ZEN4), bytes="")
    assert known == replace(vector_unit(PAIRS), follows=True, spills=False)
    assert vector_unit(PAIRS) == replace(vector_unit(AVX512), dots=vector_unit(PAIRS).dots)
    assert vector_unit(PAIRS).dots
    assert vector_unit(AMX).amx and vector_unit(AMX).of_layouts == vector_unit(AVX512)
    assert vector_unit(ZEN4_OF_AVX2) == vector_unit(AVX2)


@pytest.mark.parametrize("without", ["-amx-int8", "-amx-bf16", "-avx512bf16", "-avx512f"])
def test_a_unit_is_known_by_all_that_its_kernels_need(without):
    features = ["+avx512bf16", "+amx-bf16", "+amx-int8"]
    target = {"kind": "llvm", "mcpu": "x86-64-v4", "mattr": [*features, without]}
    unit = vector_unit(tvm.target.Target(target))
    assert not unit.amx
    assert bool(unit.dots) == without.startswith("-amx")


def test_bytes_are_multiplied_where_there_is_an_instruction_for_it():
    with_it = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4", "mattr": ["+avx512vnni"]})
    assert vector_unit(with_it) == replace(vector_unit(AVX512), bytes=vector_unit(ZEN4).bytes)
    assert vector_unit(ZEN4).bytes and not vector_unit(AVX2).bytes


def test_layouts_do_not_depend_on_how_weights_come():
    assert packing_units([ZEN4, AVX2]) == packing_units([AVX512, AVX2])
    assert packing_units([ZEN4, AVX512, PAIRS, AMX]) == packing_units([AVX512])


def few_bits(rows, group):
    weight = quantize(random(0, 1024, 2048), 8, group)
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((rows, 1024), "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            out = bb.emit_output(groupwise_dense(bb, x, weight))
        bb.emit_func_output(out)
    return bb.get()


@pytest.mark.parametrize(
    ("rows", "dtype", "asks"),
    [(1, "float32", False), (4, "float32", False), (8, "float32", True),
     (1, "bfloat16", False), (4, "bfloat16", True)],
)  # fmt: skip
def test_weights_of_few_rows_are_not_asked_for_where_the_core_follows(rows, dtype, asks):
    weight = random(0, 1024, 4096).astype(ml_dtypes.bfloat16)
    weight = weight if dtype == "bfloat16" else random(0, 1024, 2048)
    constants = relax.const(tvm.runtime.tensor(weight))
    body = constants if dtype == "float32" else relax.op.astype(constants, "float32")
    mod = model([(rows, 1024)], lambda x: relax.op.matmul(x, body))
    (kernel,) = kernels(LowerToTasks([AVX512])(mod)).values()
    scripts = {t: schedule_kernel(kernel, t).script() for t in (AVX512, ZEN4)}
    assert f", 0, {ALL}, 1)" in scripts[AVX512]
    assert ("llvm.prefetch" in scripts[ZEN4]) == asks
    assert (f", 0, {OUTER}, 1)" in scripts[ZEN4]) == asks


@pytest.mark.parametrize("rows", [1, 8])
def test_codes_in_whole_numbers_are_not_asked_for(rows):
    """The product in floats, of groups that are too small for whole numbers, asks."""
    for group, asks in ((32, False), (16, True)):
        (kernel,) = kernels(LowerToTasks([AVX512])(few_bits(rows, group))).values()
        assert ("llvm.prefetch" in schedule_kernel(kernel, AVX512).script()) == asks


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("heads", [8, 32])
def test_a_prefetcher_that_follows_is_not_told_what_comes(dtype, heads):
    a = attention_of(a_token(heads, dtype))
    assert a is not None
    assert sizes_of(a, vector_unit(ZEN4)).ahead == 0
    assert sizes_of(a, vector_unit(AVX512)).ahead > 0
    asks = {
        target: "llvm.prefetch" in schedule_kernel(a_token(heads, dtype), target).script()
        for target in (ZEN4, AVX512)
    }
    assert asks == {ZEN4: False, AVX512: True}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_stretches_of_values_are_asked_for_in_any_case(dtype):
    """Each is read several times, a few columns at a time, which is no stream."""
    script = schedule_kernel(a_token(64, dtype), ZEN4).script()
    assert f", 0, {OUTER}, 1)" in script
    assert f", 0, {ALL}, 1)" not in script


def a_token(heads, dtype):
    return attend(heads, 8, 128, 1000, dtype=dtype)


def test_all_queries_of_a_token_have_their_sums_in_registers_if_these_hold_them():
    def sizes(heads, size, rows=1):
        return sizes_of(attention_of(attend(heads, 8, size, 1000, rows=rows)), vector_unit(AVX512))

    assert sizes(32, 128).together == sizes(32, 128).block == 4
    assert sizes(32, 128).stretch == 1000  # one stream
    assert sizes(64, 128).together < sizes(64, 128).block == 8
    assert sizes(32, 128, rows=4).together < sizes(32, 128, rows=4).block == 16


@pytest.mark.parametrize(("dtype", "together", "across"), [("float32", 4, 4), ("bfloat16", 8, 2)])
def test_where_values_are_converted_each_is_read_once(dtype, together, across):
    sizes = sizes_of(attention_of(attend(64, 8, 128, 1000, dtype=dtype)), vector_unit(AVX512))
    assert (sizes.together, sizes.across) == (together, across)
    assert sizes.stretch < 1000
