"""Lower one small Relax function, schedule its kernels, run it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np
import tvm
from tvm import relax, s_tir, tirx

from tvm_hetero.devices.target import own_mcpu
from tvm_hetero.kernels import schedule_kernel
from tvm_hetero.kernels.cpu.compilation import PIPELINE, build
from tvm_hetero.kernels.cpu.vector_unit import vector_unit
from tvm_hetero.passes.lower_to_tasks import LowerToTasks
from tvm_hetero.platform.discovery import missing_features
from tvm_hetero.platform.host import read_processor

AVX512 = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 1})
ZEN4 = tvm.target.Target({"kind": "llvm", "mcpu": "znver4", "num-cores": 1})
PAIRS = tvm.target.Target(
    {"kind": "llvm", "mcpu": "x86-64-v4", "mattr": ["+avx512bf16"], "num-cores": 1}
)
AMX = tvm.target.Target(
    {
        "kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 1,
        "mattr": ["+avx512bf16", "+amx-bf16", "+amx-int8"],
    }
)  # fmt: skip
AVX2 = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1})
SSE = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v2", "num-cores": 1})
TWO_CORES = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
CUDA = tvm.target.Target({"kind": "cuda", "arch": "sm_90"}, host="llvm")
# For what others are compared with: LLVM takes half the time if it need not make code quick.
REFERENCE = tvm.target.Target({"kind": "llvm", "opt-level": 0})


def runs_here(target: tvm.target.Target) -> bool:
    """True where this machine's CPU has the vectors that the target's kernels use."""
    mcpu = str(target.attrs.get("mcpu"))
    if mcpu.startswith("znver") and not own_mcpu().startswith("znver"):
        return False  # AMD's cores have instructions that others have not
    if missing_features({"kind": "llvm", "mcpu": mcpu}, read_processor()):
        return False
    here = vector_unit(tvm.target.Target({"kind": "llvm", "mcpu": own_mcpu()}))
    unit = vector_unit(target)
    # Sums of bytes in 256 bits are another instruction (AVX-VNNI) than in 512, where both are.
    if unit.bytes.endswith("vpdpbusd.256") and "avx_vnni" not in read_processor().flags:
        return False
    more = (bool(here.dots) or not unit.dots) and (here.amx or not unit.amx)
    return here.bits >= unit.bits and more


def model(shapes: Sequence[Sequence[int]], body: Callable[..., relax.Expr]) -> tvm.IRModule:
    """A module whose ``main`` takes float32 tensors of the shapes and returns ``body(*inputs)``."""
    bb = relax.BlockBuilder()
    inputs = [relax.Var(f"x{i}", relax.TensorType(s, "float32")) for i, s in enumerate(shapes)]
    with bb.function("main", inputs):
        with bb.dataflow():
            out = bb.emit_output(bb.normalize(body(*inputs)))
        bb.emit_func_output(out)
    return bb.get()


def kernels(mod: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """The PrimFuncs of a module by name."""
    found = [(gv.name_hint, f) for gv, f in mod.functions_items()]
    return {name: f for name, f in found if isinstance(f, tirx.PrimFunc)}


def scheduled(mod: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """The module with every kernel scheduled for the target."""
    functions = {
        gv: schedule_kernel(f, target) if isinstance(f, tirx.PrimFunc) else f
        for gv, f in mod.functions_items()
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def run(mod: tvm.IRModule, target: tvm.target.Target, *inputs: np.ndarray) -> np.ndarray:
    """Compile a module with TVM's own pipeline and run ``main``."""
    vm = relax.VirtualMachine(tvm.compile(mod, target, tir_pipeline=PIPELINE), tvm.cpu())
    return vm["main"](*(tvm.runtime.tensor(x) for x in inputs)).numpy()


def random(seed: int, *shape: int) -> np.ndarray:
    """Standard normal float32 values."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def check(
    shapes: Sequence[Sequence[int]],
    body: Callable[..., relax.Expr],
    targets: Sequence[tvm.target.Target] = (AVX512, AVX2),
) -> tvm.IRModule:
    """Assert that plain TVM and our kernels on every target agree; returns the lowered module."""
    mod = model(shapes, body)
    inputs = [random(i, *shape) for i, shape in enumerate(shapes)]
    expected = run(mod, REFERENCE, *inputs)
    lowered = LowerToTasks(targets)(mod)
    spread = max(float(expected.std()), 1e-3)
    for target in targets:
        if runs_here(target):
            actual = run(scheduled(lowered, target), target, *inputs)
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4 * spread)
    return lowered


def walk(
    node: tirx.Stmt, meet: Callable[[tirx.Stmt, list[tirx.For]], None], *around: tirx.For
) -> None:
    """Tell of every block and other statement below, each with the loops around it."""
    if isinstance(node, tirx.SeqStmt):
        for child in node.seq:
            walk(child, meet, *around)
    elif isinstance(node, tirx.For):
        walk(node.body, meet, *around, node)
    else:
        meet(node, list(around))
        if isinstance(node, s_tir.SBlockRealize):
            walk(node.block.body, meet, *around)


def innermost(text):
    """The bodies of loops of an assembly text for x86, without another loop inside."""
    inner = r"^(\.LBB\w+):.*\n((?:(?!\.LBB).*\n)*?\tj\w+\t\1\n)"
    return [body for _, body in re.findall(inner, text, flags=re.MULTILINE)]


def assert_sums_stay_in_registers(kernel: tirx.PrimFunc, target: tvm.target.Target) -> None:
    """A kernel for AVX-512 stores no vector in the loops that ask for memory ahead."""
    mod = tvm.IRModule({"main": kernel.with_attr("global_symbol", "main")})
    loops = _loops_that_ask(build(mod, target).inspect_source("asm"))
    assert loops
    for loop in loops:
        assert re.search(r"\tvfmadd\w+ps\s.*%zmm", loop)
        assert not re.search(r"\tvmov\w+\s+%zmm\d+, .*\(", loop)


def _loops_that_ask(assembly: str) -> list[str]:
    """The innermost loops in assembly that ask for memory ahead: from a label to a jump back."""
    loops = re.findall(
        r"^(\.LBB\w+):\n((?:(?!\.LBB).*\n)*?\tj\w+\t\1\n)", assembly, flags=re.MULTILINE
    )
    return [body for _, body in loops if "prefetch" in body]
