"""What C++ knows of processors is what Python knows."""

from __future__ import annotations

import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.draws import draws
from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.executor import native
from tvm_hetero.platform.discovery import missing_features
from tvm_hetero.platform.host import Processor, read_processor

LEVELS = ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")
MCPUS = (*LEVELS, "znver4", "znver5", "cooperlake", "sapphirerapids", "skylake", "")


def needed(mcpu: str) -> set[str]:
    target = {"kind": "llvm", "mcpu": mcpu}
    return set(missing_features(target, Processor(flags=frozenset({"fpu"}))))


FEATURES = sorted(needed("znver5") | needed("sapphirerapids"))


def test_flags_are_those_that_python_reads() -> None:
    native.load_library()
    flags = tvm_ffi.get_global_func("tvm_hetero.processor_flags")()
    assert frozenset(flags) == read_processor().flags


@given(st.sampled_from(MCPUS), st.sets(st.sampled_from(["fpu", *FEATURES])))
@settings(max_examples=draws(80), deadline=None)
def test_the_same_is_missing(mcpu: str, flags: set[str]) -> None:
    native.load_library()
    missing = tvm_ffi.get_global_func("tvm_hetero.missing_features")(mcpu, sorted(flags))
    processor = Processor(flags=frozenset(flags))
    assert list(missing) == missing_features({"kind": "llvm", "mcpu": mcpu}, processor)


def test_each_level_needs_all_of_the_one_before_it() -> None:
    assert needed("x86-64-v2") < needed("x86-64-v3") < needed("x86-64-v4") < needed("znver4")
    assert needed("znver5") - needed("znver4") == {"avx_vnni", "avx512_vp2intersect"}
    assert needed("x86-64-v4") < needed("cooperlake") < needed("znver4")
    more = {"avx_vnni", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"}
    assert needed("sapphirerapids") - needed("znver4") == more
    assert len(FEATURES) == 37 and needed("skylake") == set()


def test_code_for_the_cpu_that_is_here_runs_here() -> None:
    here = {"kind": "llvm", "mcpu": own_mcpu()}
    assert tvm.target.Target(here).attrs["mcpu"] == here["mcpu"]
    assert missing_features(here, read_processor()) == []
