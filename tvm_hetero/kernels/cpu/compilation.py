"""How scheduled kernels become machine code: TVM's own steps, but with small buffers on the stack.

Problem
    Accumulators of a tile are a buffer of a KiB or two, which LLVM should keep in registers. TVM
    0.27 takes a buffer of that size, and every one of scope ``local``, from a workspace, by a call
    that returns a pointer. What such a pointer points to, LLVM cannot tell from what another one
    does (a padded image is in a workspace too) or, in the function of a parallel loop, from any
    other memory. As soon as a step of a reduction touches other memory than by loads, as a
    prefetch does, all accumulators are stored in each step.

Answer
    After TVM's last steps on the whole function each buffer of scope ``local`` with a constant size
    of at most `MOST` bytes is declared over memory of the stack instead. That memory never leaves
    its function, so nothing else can touch it: LLVM takes it apart into registers.

Kernels do not check their arguments: TVM's checks (types, shape, strides, alignment and device of
each, with a message for each) are several times the text of a short kernel, and were most of what
LLVM worked on. Whoever calls a kernel has planned its tensors for it: an executor's plan has their
shapes from the module that the kernels are from, one that is read is held against what they take
(`tvm_hetero.plan.kernel_takes`), and the VM checks what `main` is given.

Some of TVM's passes take long on code that is written out, some hundred statements without a loop,
and do nothing for it: one makes buffers as small as what is used of them, one looks for common
subexpressions (LLVM does that too), others are for threads of a GPU, for branches in loops, and for
loops that do nothing. (Objects are the same bytes without the last ones.) A function with the
attribute `WRITTEN_OUT` goes without them.
``python -m benchmarks.tiles`` prints what that saves.

`build` and, for whole Relax modules, `PIPELINE` are what everything of ours is compiled by. What
is compiled by TVM's own pipeline gives the same results, slower where kernels ask for memory ahead.
"""

from __future__ import annotations

import math
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.target import Target
from tvm.tirx.compilation_pipeline import register_tir_pipeline

from tvm_hetero.kernels.cpu import (  # kernels that come here have their operations
    bfloat16_dot_ops,  # noqa: F401
    byte_dot_ops,  # noqa: F401
)
from tvm_hetero.kernels.cpu.counter_modulo import hide_counter_modulo
from tvm_hetero.kernels.cpu.lets_outside import bind_outside
from tvm_hetero.kernels.indexing.checks import add_missing_checks
from tvm_hetero.kernels.indexing.divided_indices import hide_divided_indices
from tvm_hetero.kernels.tir.cuda_compiler import exact_cuda, may_alias
from tvm_hetero.kernels.tir.cuda_source import spell_constants
from tvm_hetero.platform.amx_permission import ask_for_tiles

# The name to give to `tvm.compile(..., tir_pipeline=)`. A new number where code changes otherwise
# than by kernels' schedules: what was compiled or measured before does not count then.
PIPELINE = "tvm_hetero/5"
# Bytes of one buffer: twice the registers of AVX-512. Threads of a pool have megabytes of stack.
MOST = 4096
_WORD = 8
# On functions whose buffers are as small as they can be.
WRITTEN_OUT = "tvm_hetero.written_out"
_BINDS_TWICE = "Let cannot bind the same var"
_NOT_FOR_THESE = [
    "s_tir.CompactBufferAllocation", "tirx.CommonSubexprElim", "s_tir.InjectPermutedLayout",
    "s_tir.InjectVirtualThread", "s_tir.InjectSoftwarePipeline", "s_tir.LoopPartition",
    "s_tir.InsertHoistIfThenElse", "s_tir.HoistIfThenElse", "tirx.RemoveNoOp",
]  # fmt: skip


def build(mod: tvm.IRModule, target: Target) -> tvm.runtime.Module:
    """Compile kernels, each with its symbol in ``global_symbol``.

    Raises
    ------
    RuntimeError, ValueError, TypeError
        What TVM raises where a kernel cannot be compiled.
    PlatformError
        If there is no compiler for the target (see `kernels.tir.cuda_compiler`).
    """
    with exact_cuda(target):
        return tirx.build(mod, target=target, pipeline=PIPELINE)


def _pipeline() -> tuple[tvm.transform.Pass, Any, Any]:
    """TVM's pipeline: the passes, and makers of the last ones for the host and for devices."""
    ask_for_tiles()  # who compiles kernels here may run them here
    passes, _, finish_devices = default_s_tir_pipeline()

    def finish() -> tvm.transform.Pass:
        return tvm.transform.Sequential([finish_devices(), may_alias, spell_constants])

    return _lower(passes), _finish_host, finish


def _lower(passes: tvm.transform.Pass) -> tvm.transform.Pass:
    """TVM's passes, without some for functions that are written out."""

    @tvm.transform.module_pass(opt_level=0, name="LowerKernels")
    def lower(mod: tvm.IRModule, context: tvm.transform.PassContext) -> tvm.IRModule:
        mod = _made_safe(mod)
        written = {gv: f for gv, f in mod.functions_items() if _is_written_out(f)}
        if not written:
            return _applied(passes, mod)
        rest = {gv: f for gv, f in mod.functions_items() if gv not in written}
        rest = tvm.IRModule(rest, attrs=mod.attrs, global_infos=mod.global_infos)
        done = _applied(passes, rest)
        with _without(context, _NOT_FOR_THESE):
            done.update(passes(tvm.IRModule(written, attrs=mod.attrs)))
        return done

    return lower


def _applied(passes: tvm.transform.Pass, mod: tvm.IRModule) -> tvm.IRModule:
    """Apply passes, to another form of the kernels where the vectorizer refuses one."""
    try:
        return passes(mod)
    except tvm.error.InternalError as error:
        if _BINDS_TWICE not in str(error):
            raise
    return passes(bind_outside(mod))


def _made_safe(mod: tvm.IRModule) -> tvm.IRModule:
    """The module, of whose kernels none has indices that TVM makes others of.

    Those that no one has scheduled look at their indices, too.
    """
    safe = tvm.IRModule({}, attrs=mod.attrs, global_infos=mod.global_infos)
    for gv, func in mod.functions_items():
        is_kernel = isinstance(func, tirx.PrimFunc)
        safe[gv] = hide_divided_indices(add_missing_checks(func)) if is_kernel else func
    return safe


def _is_written_out(func: Any) -> bool:
    return isinstance(func, tirx.PrimFunc) and WRITTEN_OUT in (func.attrs or {})


def _without(context: tvm.transform.PassContext, names: list[str]) -> tvm.transform.PassContext:
    """The context without these passes, and without its instruments.

    To enter a context is the beginning of a measurement to TVM's `PassTimingInstrument`: one that
    is in two contexts at once, the second inside of the first, aborts the process.
    """
    return tvm.transform.PassContext(
        opt_level=context.opt_level,
        required_pass=list(context.required_pass),
        disabled_pass=[*context.disabled_pass, *names],
        config=dict(context.config.items()),
    )


def _finish_host() -> tvm.transform.Pass:
    """TVM's last passes on host code, after ours."""
    last = [
        tirx.transform.SkipAssert(),  # of arguments
        small_buffers_on_stack,
        hide_counter_modulo,
        tirx.transform.LowerTVMBuiltin(),
        tirx.transform.LowerIntrin(),
    ]
    return tvm.transform.Sequential(last)


@tirx.transform.prim_func_pass(opt_level=0, name="SmallBuffersOnStack")  # type: ignore[untyped-decorator]
def small_buffers_on_stack(
    func: tirx.PrimFunc, _mod: tvm.IRModule, _context: tvm.transform.PassContext
) -> tirx.PrimFunc:
    """A pass: small local buffers are declared over memory of the stack."""
    return func.with_body(tvm_ffi.structural_map(func.body, (tirx.AllocBuffer, _on_stack)))


def _on_stack(node: tirx.AllocBuffer) -> tirx.Stmt:
    size = _bytes(node.buffer)
    if node.buffer.scope() != "local" or not 0 < size <= MOST:
        return node
    # "shape" is TVM's name for an array of integers of 64 bits.
    memory = tirx.tvm_stack_alloca("shape", -(-size // _WORD))
    return tirx.DeclBuffer(node.buffer, data=tirx.reinterpret(node.buffer.data.ty, memory))


def _bytes(buffer: tirx.Buffer) -> int:
    """How large a buffer is; 0 where its shape is not constant."""
    if not all(isinstance(e, int | tirx.IntImm) for e in buffer.shape):
        return 0
    kind = tvm_ffi.dtype(str(buffer.dtype))
    return math.prod(int(e) for e in buffer.shape) * -(-kind.bits * kind.lanes // 8)


register_tir_pipeline(PIPELINE, _pipeline)
