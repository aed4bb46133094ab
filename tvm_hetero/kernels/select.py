"""Which rule schedules a kernel for a target, unless the kernel itself says otherwise.

A kernel may bear an implementation (see `tir.implementation_attr`): then that is how it is
scheduled, and the rules are asked only where it does not apply.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import tvm
from tvm import tirx

from tvm_hetero.kernels.attention.cpu import attention_on_cpu
from tvm_hetero.kernels.attention.gpu import attention_on_gpu
from tvm_hetero.kernels.attention.kernel import attention_of
from tvm_hetero.kernels.convolution.amx_conv2d import convolve_by_tiles
from tvm_hetero.kernels.convolution.winograd.kernel import WINOGRAD, make_winograd, share_of_plain
from tvm_hetero.kernels.convolution.winograd.match import is_convolution_3x3
from tvm_hetero.kernels.cpu.bfloat16_dot_ops import use_bfloat16_dots
from tvm_hetero.kernels.cpu.byte_dot_ops import use_byte_dots
from tvm_hetero.kernels.cpu.vector_unit import VectorUnit, cores, vector_unit
from tvm_hetero.kernels.indexing.checks import with_checks
from tvm_hetero.kernels.indexing.masks import add_masks
from tvm_hetero.kernels.matmul.product_amx import by_tiles
from tvm_hetero.kernels.matmul.product_bytes import in_bytes
from tvm_hetero.kernels.matmul.product_pairs import in_pairs
from tvm_hetero.kernels.matmul.written_products import schedule_parts
from tvm_hetero.kernels.quantized.factored import factor_groups
from tvm_hetero.kernels.quantized.float_codes import keep_codes_float
from tvm_hetero.kernels.quantized.float_schedule import schedule_groupwise
from tvm_hetero.kernels.quantized.integer_product import in_whole_numbers
from tvm_hetero.kernels.recurrent.cpu import recurrence_on_cpu
from tvm_hetero.kernels.recurrent.gpu import recurrence_on_gpu
from tvm_hetero.kernels.recurrent.kernel import recurrence_of
from tvm_hetero.kernels.rowwise.reducers import extremes_scheduler
from tvm_hetero.kernels.rules.cpu_rules import Rule as CpuRule
from tvm_hetero.kernels.rules.cpu_rules import rules_for
from tvm_hetero.kernels.rules.gpu import schedule_gpu
from tvm_hetero.kernels.rules.gpu_one_thread import is_bound, on_one_thread
from tvm_hetero.kernels.rules.gpu_spatial import schedule_spatial
from tvm_hetero.kernels.tir.batched import batch_of_kernel
from tvm_hetero.kernels.tir.batched_schedule import schedule_batched
from tvm_hetero.kernels.tir.conditions import schedule_under_conditions
from tvm_hetero.kernels.tir.cuda_source import branch_on_conditions
from tvm_hetero.kernels.tir.implementation_attr import (
    DEFAULT,
    DIRECT,
    RULE_ATTR,
    TUNED,
    implementation_of,
    trace_of,
    without_implementation,
)
from tvm_hetero.kernels.tir.unchecked_schedule import quick_schedule
from tvm_hetero.kernels.tir.vector_math import expand
from tvm_hetero.kernels.tir.whole_divisions import guard_divisions
from tvm_hetero.kernels.tir.widening import widen
from tvm_hetero.kernels.tir.zero_skip import guards_of, skip_zero_weights
from tvm_hetero.util.untrusted_names import printable

if TYPE_CHECKING:
    from tvm.target import Target

    Attempt = tuple[str, Callable[[], tirx.PrimFunc]]

SCHEDULED = "tirx.is_scheduled"


def schedule_kernel(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """The kernel, scheduled for ``target``.

    Pure and deterministic: the same function and target give structurally the same schedule.
    Where no rule fits, the generic treatment; where that fails too, the function as it came. What
    it reads and writes stays within bounds, whatever its indices are (`indexing.checks`). A
    function that is scheduled already comes back as it is. One that says how it is to be computed
    (`tir.implementation_attr`) is scheduled so.

    Parameters
    ----------
    func
        A fused PrimFunc of a module that `LowerToTasks` made.
    target
        An llvm or a GPU target (``cuda``, ``rocm``, ``vulkan``, ``metal``, ``opencl``).
        ``num-cores`` says how many cores one kernel may use (default 1).

    Returns
    -------
    tirx.PrimFunc
        The scheduled function, marked ``tirx.is_scheduled`` and with the rule's name as
        ``tvm_hetero.rule`` (`rule_of`).

    Raises
    ------
    ModelError
        If it reads or writes where no check of its indices can stand.
    """
    if func.attrs is not None and func.attrs.get(SCHEDULED):
        return func
    on_host = str(target.kind.name) == "llvm"
    return schedule_under_conditions(
        func, lambda plain: _schedule_plain(plain, target), on_host=on_host
    )


def _schedule_plain(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """The kernel scheduled, its conditions aside."""
    func = guard_divisions(func)
    if str(target.kind.name) != "llvm":
        return _schedule(branch_on_conditions(add_masks(func)), target)
    guards = guards_of(func)

    def schedule(func: tirx.PrimFunc) -> tirx.PrimFunc:
        done = _schedule(func, target)
        return done if guards is None else skip_zero_weights(done, guards)

    return with_checks(func, schedule)


def _schedule(func: tirx.PrimFunc, target: Target) -> tirx.PrimFunc:
    """The kernel scheduled, but for what is done to every kernel (see `schedule_kernel`)."""
    if batch_of_kernel(func) > 1:
        return schedule_batched(func, target, _schedule)
    how, trace = implementation_of(func), trace_of(func)
    func = without_implementation(func)
    on_cpu = str(target.kind.name) == "llvm"
    if how == DEFAULT and on_cpu:  # a GPU cannot run what is bound to no thread
        return _scheduled(func, DEFAULT)
    if how == TUNED:
        tuned = _tuned(func, trace or "", target)
        if tuned is not None:
            return _scheduled(tuned, TUNED)
    return _first_that_works(func, _on_cpu(func, target, how) if on_cpu else _on_gpu(func, target))


def rule_of(func: tirx.PrimFunc) -> str:
    """The name of the rule that scheduled a kernel; ``default`` where none did, ``tuned`` where
    a trace did.
    """
    value = func.attrs.get(RULE_ATTR) if func.attrs is not None else None
    return DEFAULT if value is None else str(value)


def _scheduled(func: tirx.PrimFunc, rule: str) -> tirx.PrimFunc:
    return func.with_attr(SCHEDULED, True).with_attr(RULE_ATTR, rule)


def _tuned(func: tirx.PrimFunc, trace: str, target: Target) -> tirx.PrimFunc | None:
    """The kernel as a trace makes it; None, with a warning, where the trace does not apply."""
    try:
        from tvm_hetero.kernels.tuning.trace import apply_trace

        return expand(widen(apply_trace(func, trace, target)))
    # As with rules: what TVM raises on a trace of another version can be anything.
    except Exception as error:
        *_, last = str(error).strip().splitlines() or [type(error).__name__]
        reason = printable(last, 200)
        warnings.warn(
            f"a tuned schedule does not apply to its kernel ({reason}), so the rule takes it; "
            f"tune again for TVM {tvm.__version__}",
            stacklevel=3,
        )
        return None


def _on_gpu(func: tirx.PrimFunc, target: Target) -> Iterator[Attempt]:
    attention = attention_of(func)
    if attention is not None:
        yield "attention", lambda: _written(func, attention_on_gpu(attention))
    recurrence = recurrence_of(func)
    if recurrence is not None:
        yield "recurrent", lambda: _written(func, recurrence_on_gpu(recurrence))
    yield "dlight", lambda: schedule_gpu(func, target)
    yield "spatial", lambda: schedule_spatial(func)
    if not is_bound(func):
        yield "one thread", lambda: on_one_thread(func)


def _on_cpu(func: tirx.PrimFunc, target: Target, how: str) -> Iterator[Attempt]:
    unit, count = vector_unit(target), cores(target)  # LLVM is asked: half a millisecond
    attention = attention_of(func)
    if attention is not None:
        yield "attention", lambda: expand(_written(func, attention_on_cpu(attention, unit, count)))
    recurrence = recurrence_of(func)
    if recurrence is not None:
        yield (
            "recurrent",
            lambda: expand(_written(func, recurrence_on_cpu(recurrence, unit, count))),
        )
    if how != DIRECT and is_convolution_3x3(func):
        yield WINOGRAD, lambda: expand(_by_tiles(func, unit, count))
    whole = partial(in_whole_numbers, func, unit)
    yield "groupwise", lambda: _apply(schedule_parts, whole(), unit, count)
    yield "groupwise", lambda: _apply(schedule_groupwise, factor_groups(func), unit, count)
    yield "bytes", lambda: _apply(schedule_parts, in_bytes(func, unit), unit, count)
    yield "amx", lambda: _apply(schedule_parts, by_tiles(func, unit), unit, count)
    yield "pairs", lambda: _apply(schedule_parts, in_pairs(func, unit), unit, count)
    yield "amx", lambda: _finished(convolve_by_tiles(func, unit, count))
    scheduled = extremes_scheduler(func)
    for name, rule in rules_for(func).items():
        yield name, partial(scheduled, partial(_apply, rule, unit=unit, count=count))


def _by_tiles(func: tirx.PrimFunc, unit: VectorUnit, count: int) -> tirx.PrimFunc:
    share = share_of_plain(func, unit)
    if share > 1:
        raise ValueError(f"it should take {share:.2f} times as long as plain sums")
    return make_winograd(func, unit, count)


def _written(func: tirx.PrimFunc, kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """A kernel that is written out, with the attributes of what it takes the place of."""
    return kernel.with_attrs(dict(func.attrs.items()))


def _apply(rule: CpuRule, func: tirx.PrimFunc, unit: VectorUnit, count: int) -> tirx.PrimFunc:
    sch = quick_schedule(func)
    if not rule(sch, unit, count):
        raise ValueError("another family's kernel")
    return _finished(use_bfloat16_dots(use_byte_dots(sch.mod["main"], unit), unit))


def _finished(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled kernel in types, and by functions, that vectors have."""
    return expand(keep_codes_float(widen(func)))


def _first_that_works(func: tirx.PrimFunc, attempts: Iterator[Attempt]) -> tirx.PrimFunc:
    for name, attempt in attempts:
        try:
            return _scheduled(attempt(), name)
        # A rule that does not fit leaves no trace: it worked on a copy. Any exception counts:
        # TVM's schedule primitives raise whatever the C++ check or the FFI raises, and a
        # kernel that is merely slow beats a model that cannot be compiled.
        except Exception:
            continue
    return func
