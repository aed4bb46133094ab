"""What there is to be measured: every kernel in each of the ways in which it could be computed.

    rule       always
    default    TVM's own loop nest, where it can win: on CPUs, where the rule is only the generic
               one. (The rules of families beat it by ten to a hundred times; it is not even
               compiled beside them, but for a rule that fails.)
    tuned      where the store has a trace for the unscheduled kernel
    direct     where the rule is Winograd's and should not gain much

and, where the rule is only the generic one, the loop nest as LLVM compiles it without optimising:
never chosen, it says whether the others are right (`choose_implementation`). On a device that is no
CPU it is the kernel as a CPU computes it that says so, for every kernel.

Where a kernel's contest is decided already, on fewer cores of the same kind, and the rule won it,
the rule is measured alone.

Two ways that lead to the same scheduled function are one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from tvm_hetero.cost_models.kernels_alone.compile_kernels import UNOPTIMIZED
from tvm_hetero.cost_models.protocol import Progress
from tvm_hetero.cost_models.store import CostStore, KernelKey
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.kernels.tir.implementation_attr import (
    DEFAULT,
    DIRECT,
    RULE,
    TUNED,
    with_implementation,
)
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.problem.implementation_choice import FALL_BACKS

if TYPE_CHECKING:
    from tvm.target import Target
    from tvm.tirx import PrimFunc

REFERENCE = "reference"
Schedule = Callable[["PrimFunc", "Target"], "PrimFunc"]


@dataclass(frozen=True)
class KernelCandidate:
    """A kernel, scheduled in one of the ways. `trace` is there if it is tuned."""

    implementation: str
    func: PrimFunc
    key: KernelKey
    trace: str | None = None


@dataclass(frozen=True)
class KernelJob:
    """One kernel to be measured for one target, for all `names` that are this very kernel.

    Attributes
    ----------
    rule : the name of the rule that takes it.
    cold : positions of the parameters that are thrown out of the caches.
    by_rule : what is measured first.
    others : what is then measured in turns with it.
    plain : the loop nest that says what is right; None on a GPU, which cannot run it.
    reference : the same without LLVM's optimisations, where the rule leaves LLVM most to do.
    host : the kernel for a CPU of this machine, where the target is none.
    """

    names: tuple[str, ...]
    rule: str
    cold: tuple[int, ...]
    by_rule: KernelCandidate
    others: tuple[KernelCandidate, ...]
    plain: KernelCandidate | None
    reference: KernelCandidate | None = None
    host: KernelCandidate | None = None

    @property
    def key(self) -> KernelKey:
        """The key of what the rule makes."""
        return self.by_rule.key


def make_jobs(
    kernels: Sequence[Kernel],
    target: Target,
    schedule: Schedule,
    store: CostStore,
    tell: Progress,
    decided: Mapping[KernelKey, str] = MappingProxyType({}),
    host: Target | None = None,
) -> list[KernelJob]:
    """Schedule every kernel in all its ways; kernels that turn out equal are one job.

    Parameters
    ----------
    kernels, target : what for which target.
    schedule : makes a scheduled function.
    store : has traces of tuned kernels.
    tell : told of the progress.
    decided : the implementations of kernels, by the keys of their unscheduled functions, that won
        on other cores of the same kind.
    host : a target of this machine's CPU, if `target` is none.
    """
    jobs: dict[KernelKey, KernelJob] = {}
    for done, kernel in enumerate(kernels, start=1):
        by_rule = _candidate(kernel, RULE, target, schedule)
        known = jobs.get(by_rule.key)
        if known is None:
            won = decided.get(kernel_key(kernel.func)) == RULE
            job = _alone if won else _job
            jobs[by_rule.key] = job(kernel, by_rule, target, schedule, store)
            if host is not None:
                on_host = _candidate(kernel, RULE, host, schedule)
                jobs[by_rule.key] = replace(jobs[by_rule.key], host=on_host)
        else:
            jobs[by_rule.key] = replace(known, names=(*known.names, kernel.name))
        tell(f"schedule for {target_name(target)}", done, len(kernels))
    return list(jobs.values())


def target_name(target: Target) -> str:
    """What a target is called in messages."""
    return str(target.attrs.get("mcpu", target.kind.name))


def _alone(
    kernel: Kernel, by_rule: KernelCandidate, target: Target, schedule: Schedule, _: CostStore
) -> KernelJob:
    """The job of a kernel whose rule has won already."""
    from tvm_hetero.kernels.select import rule_of

    on_cpu = target.kind.name == "llvm"
    plain = _candidate(kernel, DEFAULT, target, schedule) if on_cpu else None
    return KernelJob((kernel.name,), rule_of(by_rule.func), _cold(kernel), by_rule, (), plain)


def _job(
    kernel: Kernel, by_rule: KernelCandidate, target: Target, schedule: Schedule, store: CostStore
) -> KernelJob:
    from tvm_hetero.kernels.convolution.winograd.kernel import CLEAR, WINOGRAD, share_of_plain
    from tvm_hetero.kernels.cpu.vector_unit import vector_unit
    from tvm_hetero.kernels.select import rule_of

    rule = rule_of(by_rule.func)
    on_cpu = target.kind.name == "llvm"
    plain = _candidate(kernel, DEFAULT, target, schedule) if on_cpu else None
    others = [plain] if plain is not None and rule in FALL_BACKS else []
    trace = store.find_tuned(kernel_key(kernel.func), str(target))
    if trace is not None:
        tuned = _candidate(kernel, TUNED, target, schedule, trace)
        # Where the trace did not apply, the rule has taken the kernel (and has said so).
        others.append(tuned)
    if rule == WINOGRAD and share_of_plain(kernel.func, vector_unit(target)) > CLEAR:
        others.append(_candidate(kernel, DIRECT, target, schedule))
    distinct = {other.key: other for other in others if other.key != by_rule.key}
    return KernelJob(
        (kernel.name,), rule, _cold(kernel), by_rule, tuple(distinct.values()), plain,
        _unoptimized(kernel, plain) if plain is not None and rule in FALL_BACKS else None,
    )  # fmt: skip


def _unoptimized(kernel: Kernel, plain: KernelCandidate) -> KernelCandidate:
    func = plain.func.with_attr(UNOPTIMIZED, True)
    return KernelCandidate(REFERENCE, func, kernel_key(func, _cold(kernel)))


def _candidate(
    kernel: Kernel, how: str, target: Target, schedule: Schedule, trace: str | None = None
) -> KernelCandidate:
    func = schedule(with_implementation(kernel.func, how, trace), target)
    return KernelCandidate(how, func, kernel_key(func, _cold(kernel)), trace)


def _cold(kernel: Kernel) -> tuple[int, ...]:
    """The constants that a call reads, of which nothing is in the caches when it begins.

    Not tables, of which it reads a row or two: to throw all of one out of the caches for each
    repeat, 154 MB of a table of embeddings, took longer than a contest may.
    """
    from tvm_hetero.kernels.tir.gathers import find_gathered

    tables = find_gathered(kernel.func)
    return tuple(i for i in kernel.constants if i not in tables)
