"""Attention over a cache, beside the same in NumPy's float64."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tests.kernels.helpers import (
    AMX,
    AVX2,
    AVX512,
    CUDA,
    PAIRS,
    REFERENCE,
    SSE,
    TWO_CORES,
    ZEN4,
    innermost,
    random,
    runs_here,
)
from tvm_hetero.errors import ModelError
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.attention.gpu import attention_on_gpu
from tvm_hetero.kernels.attention.kernel import attend, attention_of
from tvm_hetero.kernels.cpu.compilation import build
from tvm_hetero.kernels.select import rule_of
from tvm_hetero.kernels.tir.batched import batch_kernel
from tvm_hetero.kernels.tir.statements import loop
from tvm_hetero.kernels.tir.threads import Threads


@dataclass(frozen=True)
class Sizes:
    """What `attend` takes."""

    heads: int
    kv_heads: int
    size: int
    length: int
    rows: int = 1
    scale: float | None = None
    rotary: int = 0
    dtype: str = "float32"

    def kernel(self):
        return attend(**vars(self))

    def inputs(self, position):
        """Arguments of the kernel: what was never written is no number."""
        kv, cache = self.kv_heads * self.size, (self.kv_heads, self.length, self.size)
        first = min(max(position, 0), self.length - 1)
        caches = [random(seed, *cache) for seed in (3, 4)]
        for tensor in caches:
            tensor[:, first:] = np.nan
        angles = random(5, self.length, self.rotary // 2)
        return [
            random(0, self.rows, self.heads * self.size),
            random(1, self.rows, kv),
            random(2, self.rows, kv),
            np.array([position], np.int32),
            *(stored(tensor, self.dtype) for tensor in caches),
            *([np.hstack([np.cos(angles), np.sin(angles)])] if self.rotary else []),
            np.full((self.rows, self.heads * self.size), np.nan, np.float32),
        ]


def stored(values, dtype):
    import ml_dtypes

    kind = {"bfloat16": ml_dtypes.bfloat16}.get(dtype, dtype)
    return np.ascontiguousarray(values.astype(kind))


def turned(s, numbers, angles):
    """Heads [heads, size], their first numbers turned by (cosines, sines)."""
    half, result = s.rotary // 2, numbers.copy()
    cosine, sine = angles[:half], angles[half:]
    first, second = numbers[:, :half], numbers[:, half : s.rotary]
    result[:, :half] = first * cosine - second * sine
    result[:, half : s.rotary] = second * cosine + first * sine
    return result


def expected(s, arguments):
    """The caches and the result, computed in float64 (caches rounded to their type)."""
    q, k, v, position, keys, values, *table, _ = arguments
    dtype, first = keys.dtype, min(max(int(position[0]), 0), s.length - 1)
    keys, values, out = keys.astype(np.float64), values.astype(np.float64), []
    scale = s.size**-0.5 if s.scale is None else s.scale
    for i in range(s.rows):
        row = first + i
        if row < s.length:
            key = k[i].reshape(s.kv_heads, s.size).astype(np.float64)
            if table:
                key = turned(s, key, table[0][row])
            keys[:, row] = key.astype(np.float32).astype(dtype)
            values[:, row] = v[i].reshape(s.kv_heads, s.size).astype(dtype)
        row = min(row, s.length - 1)
        query = q[i].reshape(s.heads, s.size).astype(np.float64)
        if table:
            query = turned(s, query, table[0][row])
        group = s.heads // s.kv_heads
        for h in range(s.heads):
            seen = slice(0, row + 1)
            w = scale * keys[h // group, seen] @ query[h]
            w = np.exp(w - w.max())
            out.append(w / w.sum() @ values[h // group, seen])
    return keys, values, np.array(out).reshape(s.rows, -1)


def built(func, target):
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    return tvm.runtime.Executable(build(mod, target)).jit()["main"]


def called(function, arguments):
    """What a kernel leaves in its arguments."""
    tensors = [tvm.runtime.tensor(a) for a in arguments]
    function(*tensors)
    return [t.numpy() for t in tensors]


def check(s, positions, targets=(AVX512,), tolerance=2e-5):
    functions = [built(s.kernel(), REFERENCE)]
    for target in filter(runs_here, targets):
        kernel = schedule_kernel(s.kernel(), target)
        assert rule_of(kernel) == "attention"
        functions.append(built(kernel, target))
    for position in positions:
        arguments = s.inputs(position)
        keys, values, out = expected(s, arguments)
        for function in functions:
            got = called(function, arguments)
            # A key is turned in float32: half a unit of the cache's type more or less.
            close = 1e-6 if s.dtype == "float32" else 0.01
            np.testing.assert_allclose(got[4].astype(float), keys, rtol=close, atol=close)
            np.testing.assert_array_equal(got[5].astype(float), values)
            np.testing.assert_allclose(got[-1], out, rtol=tolerance, atol=tolerance)


def test_one_token():
    check(Sizes(4, 4, 16, 40), [0, 1, 15, 16, 39], [AVX512, AVX2, SSE])


def test_shared_keys_and_turned_heads():
    check(Sizes(8, 2, 32, 33, rotary=32), [0, 7, 32], [AVX512, AVX2])
    check(Sizes(2, 1, 16, 20, rotary=8, scale=0.7), [3, 19])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_long_rows_of_several_queries(dtype):
    targets = [AVX512, AVX2]
    tolerance = 2e-5 if dtype == "float32" else 0.02
    check(Sizes(4, 1, 128, 50, dtype=dtype), [0, 17, 49], targets, tolerance)
    check(Sizes(8, 1, 128, 50, dtype=dtype), [49], targets, tolerance)


@pytest.mark.parametrize("sizes", [
    Sizes(4, 1, 32, 33, dtype="bfloat16", rotary=32),
    Sizes(8, 1, 128, 50, dtype="bfloat16"),
    Sizes(12, 2, 64, 31, dtype="bfloat16", rotary=16),
])  # fmt: skip
def test_pairs_of_bfloat16(sizes):
    """An even and an odd number of rows, up to the end; what is behind them is no number."""
    check(sizes, [0, 1, 15, 16, 17, 30, sizes.length - 1], [PAIRS, ZEN4], 0.03)


@pytest.mark.parametrize("sizes", [
    Sizes(8, 1, 128, 150, dtype="bfloat16"), Sizes(8, 2, 64, 130, dtype="bfloat16", rotary=64),
    Sizes(16, 1, 96, 64, dtype="bfloat16"), Sizes(10, 2, 32, 33, dtype="bfloat16"),
    Sizes(4, 2, 64, 100, dtype="bfloat16", rows=7), Sizes(32, 1, 64, 70, dtype="bfloat16"),
])  # fmt: skip
def test_tile_registers(sizes):
    """Rows and stretches that are not full; what is behind them is no number."""
    assert "hetero_tile_" in schedule_kernel(sizes.kernel(), AMX).script()
    positions = [0, 15, 16, 31, 32, 63, 64, 65, sizes.length - sizes.rows, sizes.length - 1]
    check(sizes, [p for p in positions if p < sizes.length], [AMX], 0.03)


@pytest.mark.parametrize("sizes", [
    Sizes(2, 1, 64, 40, dtype="bfloat16"), Sizes(8, 1, 64, 40),
    Sizes(8, 1, 48, 40, dtype="bfloat16"), Sizes(8, 1, 256, 40, dtype="bfloat16"),
    Sizes(8, 1, 64, 12, dtype="bfloat16"),
])  # fmt: skip
def test_what_tile_registers_are_not_for(sizes):
    assert "hetero_tile_" not in schedule_kernel(sizes.kernel(), AMX).script()


@pytest.mark.parametrize("sizes", [
    Sizes(2, 2, 64, 40), Sizes(8, 2, 64, 40), Sizes(2, 2, 64, 40, dtype="bfloat16"),
    Sizes(3, 1, 64, 40, dtype="bfloat16"), Sizes(3, 3, 24, 17),
])  # fmt: skip
def test_rows_in_their_order(sizes):
    tolerance = 2e-5 if sizes.dtype == "float32" else 0.02
    check(sizes, [0, 9, sizes.length - 1], [ZEN4], tolerance)


def assembly(sizes, target):
    kernel = schedule_kernel(sizes.kernel(), target)
    mod = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    return build(mod, target).inspect_source("asm")


def test_what_is_computed_by_pairs():
    def pairs(sizes, target=PAIRS):
        return "vdpbf16ps" in assembly(sizes, target)

    assert pairs(Sizes(8, 2, 64, 40, dtype="bfloat16"))
    assert not pairs(Sizes(8, 2, 64, 40, dtype="bfloat16"), AVX512)  # which need not have it
    assert not pairs(Sizes(8, 4, 64, 40, dtype="bfloat16"))  # two queries wait for the memory
    assert not pairs(Sizes(8, 2, 48, 40, dtype="bfloat16"))  # half a vector of pairs is left
    assert not pairs(Sizes(8, 2, 64, 40))


def test_keys_of_one_token_are_read_line_by_line():
    """LLVM would read the first lines of several rows, then their second ones."""
    bodies = innermost(assembly(Sizes(1, 1, 128, 64), ZEN4))
    products = max(bodies, key=lambda body: body.count("vfmadd"))
    keys = re.findall(r"\tv(?:mul|fmadd231)ps\t(-?\d*)\(%r\w+\), %zmm", products)
    places = [int(place or 0) for place in keys]
    assert len(places) >= 4 * 8
    assert places == sorted(places)


def test_two_numbers_of_bfloat16_are_read_as_one_word():
    """No instruction that spreads 16 bits to 32; float16 has one of its own."""
    assert "vpmovzxwd" not in assembly(Sizes(8, 1, 128, 50, dtype="bfloat16"), AVX512)
    assert "vcvtph2ps" in assembly(Sizes(8, 1, 128, 50, dtype="float16"), AVX512)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_queries_are_read_where_they_are(dtype):
    """Not from copies on the stack, which is not aligned as vectors are."""
    bodies = innermost(assembly(Sizes(8, 1, 128, 50, dtype=dtype), AVX512))
    products = [body for body in bodies if body.count("vfmadd") > 100]
    assert len(products) == 1
    assert len(re.findall(r"\(%r[sb]p[^)]*\), %zmm", products[0])) < 10


def test_a_chunk_and_its_padding():
    check(Sizes(2, 2, 16, 24, rows=7, rotary=16), [0, 10, 17, 20, 23])


def test_position_is_clamped():
    check(Sizes(2, 1, 8, 12, rows=2), [-5, 1000])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_narrow_caches(dtype):
    check(Sizes(4, 2, 32, 24, rows=2, dtype=dtype, rotary=32), [0, 11, 23], tolerance=0.02)


@settings(max_examples=draws(5))
@given(data=st.data())
def test_any_sizes(data):
    kv_heads, size = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 40))
    length = data.draw(st.integers(1, 50))
    s = Sizes(
        kv_heads * data.draw(st.integers(1, 4)),
        kv_heads,
        size,
        length,
        data.draw(st.integers(1, 9)),
        rotary=2 * data.draw(st.integers(0, size // 2)),
    )
    check(s, [data.draw(st.integers(0, length - 1))], [AVX512])


def test_the_kernel_says_what_it_is():
    func = Sizes(8, 2, 32, 100, rows=3, rotary=16).kernel()
    assert func.attrs["hetero.flops"] == 4 * 3 * 8 * 32 * 100 / 2
    assert int(func.attrs["op_pattern"]) == 8
    again = tvm.ir.load_json(tvm.ir.save_json(func))
    assert attention_of(again) == attention_of(func)
    assert attention_of(func).scale == pytest.approx(32**-0.5)


@pytest.mark.parametrize(
    "sizes",
    [Sizes(3, 2, 8, 10), Sizes(0, 1, 8, 10), Sizes(2, 2, 8, 10, rotary=3),
     Sizes(2, 2, 8, 10, rotary=10), Sizes(2, 2, 8, 10, dtype="int8")],
)  # fmt: skip
def test_no_such_kernel(sizes):
    with pytest.raises(ModelError, match="expected"):
        sizes.kernel()


class Plain(Threads):
    """Threads one after the other: what a GPU's kernel computes, where there is none."""

    scope = "global"

    def loop(self, tag, extent, body):
        return loop(tag.replace(".", "_"), extent, body)

    def barrier(self):
        return []


@pytest.mark.parametrize(
    "sizes",
    [Sizes(4, 2, 16, 150, rows=3, rotary=8), Sizes(2, 2, 130, 20, dtype="bfloat16")],
)
def test_on_a_gpu(sizes):
    function = built(attention_on_gpu(attention_of(sizes.kernel()), Plain()), REFERENCE)
    for position in (0, 127, 128, 149):
        arguments = sizes.inputs(position)
        *_, out = expected(sizes, arguments)
        np.testing.assert_allclose(called(function, arguments)[-1], out, rtol=1e-5, atol=1e-5)
    kernel = schedule_kernel(sizes.kernel(), CUDA)
    assert rule_of(kernel) == "attention"
    assert all(f'"{tag}.x"' in kernel.script() for tag in ("threadIdx", "blockIdx"))


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="compiles with nvcc")
def test_the_compiler_for_gpus_takes_it():
    kernel = schedule_kernel(Sizes(2, 1, 130, 40, rows=2, rotary=4).kernel(), CUDA)
    mod = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    (device,) = build(mod, CUDA).imports
    assert "__syncthreads" in device.inspect_source()


def test_cores_share_the_heads():
    kernel = schedule_kernel(Sizes(4, 2, 16, 40, rows=2).kernel(), TWO_CORES)
    assert "T.parallel" in kernel.script()
    check(Sizes(4, 2, 16, 40, rows=2), [0, 17, 39], [TWO_CORES])


def test_several_sequences():
    """A kernel for a batch: each element has caches of its own."""
    s = Sizes(4, 2, 16, 24, rotary=16)
    kernel = schedule_kernel(batch_kernel(s.kernel(), 2, [6]), AVX2)  # the table is shared
    one, other = s.inputs(5), s.inputs(20)
    pairs = [[a] if i == 6 else [a, b] for i, (a, b) in enumerate(zip(one, other, strict=True))]
    got = called(built(kernel, AVX2), [a for pair in pairs for a in pair])
    for out, arguments in zip(got[-2:], (one, other), strict=True):
        *_, right = expected(s, arguments)
        np.testing.assert_allclose(out, right, rtol=1e-5, atol=1e-5)
