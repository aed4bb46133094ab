"""Which implementations of a kernel are right, and what they take: measured in turns.

Each candidate meets the rule's schedule by itself, so that one that crashes or hangs costs no one
else's time. First both run once on the same data. Where their outputs differ by more than
rounding, the plain loop nest, which is the definition of the kernel, decides which is wrong:

    candidate is the plain nest      the rule is wrong
    else plain, rule and candidate   whoever differs from plain is wrong; if neither does, both
    run once more                    are near the tolerance, and the candidate goes

What is wrong is refused with a warning, the rule as well as any other.

Where a rule leaves the loops to LLVM, LLVM itself is not trusted: version 22.1 vectorises some
moduli wrongly (`tvm_hetero.kernels.cpu.counter_modulo`), and then rule and plain nest may be wrong
alike. There all first meet the plain nest as LLVM compiles it without optimising. That is some
fifty times as slow, so kernels that take long are not checked so.

On a device that is no CPU every kernel first meets what a CPU of this machine computes: compilers
and schedules for GPUs have been wrong in ways that no one sees in their text (docs/gpus.md). What
cannot be compared is not used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tvm_hetero.cost_models.kernels_alone.bench import KernelBench, NotMeasured
from tvm_hetero.cost_models.kernels_alone.candidates import KernelCandidate, KernelJob
from tvm_hetero.kernels.tir.implementation_attr import DEFAULT, RULE
from tvm_hetero.problem.implementation_choice import Timing

# Seconds that a kernel may take by its rule to be checked against what is many times as slow.
_CHECKED = 1e-3
_UNOPTIMIZED = "the plain loop nest without LLVM's optimisations"


@dataclass
class ImplementationVerdict:
    """What came out for one kernel on one device: times of what is right, reasons for the rest."""

    times: dict[str, Timing] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, implementation: str, timing: Timing) -> None:
        """Keep a time; of two the smaller."""
        known = self.times.get(implementation)
        if known is None or timing.seconds < known.seconds:
            self.times[implementation] = timing

    def refuse(self, implementation: str, reason: str) -> None:
        """Drop an implementation and its times."""
        self.times.pop(implementation, None)
        self.refused[implementation] = reason


def choose_implementation(
    job: KernelJob, known: Mapping[str, Timing], bench: KernelBench
) -> ImplementationVerdict:
    """Measure all candidates of a job against its rule, whose time is `known`."""
    verdict = ImplementationVerdict(dict(known))
    _check(job, verdict, bench)
    _check_against_host(job, verdict, bench)
    for candidate in job.others:
        if RULE in verdict.refused and job.host is None:
            break  # wrong, so there is nothing to compare with; the plain nest has its time
        if candidate.implementation in verdict.refused:
            continue
        if RULE in verdict.refused:  # it has been compared with a CPU
            _measure_alone(job, candidate, verdict, bench)
            continue
        keys, seconds = [job.key, candidate.key], verdict.times[RULE].seconds
        try:
            rule, other = bench.compare(keys, job.by_rule.func, job.cold, seconds)
        except NotMeasured as reason:
            verdict.refuse(candidate.implementation, str(reason))
            continue
        if isinstance(rule, Timing):
            verdict.add(RULE, rule)
        if isinstance(other, Timing):
            verdict.add(candidate.implementation, other)
        else:
            _decide(job, candidate, other, verdict, bench)
    return verdict


def _measure_alone(
    job: KernelJob, candidate: KernelCandidate, verdict: ImplementationVerdict, bench: KernelBench
) -> None:
    try:
        timing = bench.measure(candidate.key, candidate.func, job.cold)
    except NotMeasured as reason:
        verdict.refuse(candidate.implementation, str(reason))
    else:
        verdict.add(candidate.implementation, timing)


def _check(job: KernelJob, verdict: ImplementationVerdict, bench: KernelBench) -> None:
    """Refuse a rule that computes something else than LLVM without its optimisations does.

    Then, and only then, the others meet that too.
    """
    if job.reference is None or verdict.times[RULE].seconds > _CHECKED:
        return
    for candidate in (job.by_rule, *job.others):
        try:
            keys = [job.reference.key, candidate.key]
            _, answer = bench.compare(keys, job.by_rule.func, job.cold)
        except NotMeasured as reason:
            answer = str(reason)
            if candidate is job.by_rule:
                return  # it was measured before, so it is the reference that cannot be
        if isinstance(answer, Timing):
            verdict.add(candidate.implementation, answer)
        else:
            verdict.refuse(candidate.implementation, _differs(answer, _UNOPTIMIZED))
        if RULE not in verdict.refused:
            return


def _check_against_host(job: KernelJob, verdict: ImplementationVerdict, bench: KernelBench) -> None:
    """Refuse what computes something else than a CPU does, or cannot be compared with it."""
    if job.host is None:
        return
    for candidate in (job.by_rule, *job.others):
        try:
            wrong = bench.check(job.host.key, candidate.key, candidate.func)
            reason = wrong and _differs(wrong, "a CPU does")
        except NotMeasured as failure:
            reason = f"it cannot be compared with what a CPU computes: {failure}"
        if reason:
            verdict.refuse(candidate.implementation, reason)


def _decide(
    job: KernelJob,
    candidate: KernelCandidate,
    reason: str,
    verdict: ImplementationVerdict,
    bench: KernelBench,
) -> None:
    """The outputs of rule and candidate differ (`reason`): find out which of them is wrong."""
    suspects = [job.by_rule] + [candidate] * (candidate.implementation != DEFAULT)
    for name, answer in _against_plain(job, suspects, bench):
        if isinstance(answer, Timing):
            verdict.add(name, answer)
        else:
            verdict.refuse(name, _differs(answer, "the plain loop nest"))
    if RULE not in verdict.refused and candidate.implementation not in verdict.refused:
        verdict.refuse(candidate.implementation, _differs(reason, "the rule's output"))


def _against_plain(
    job: KernelJob, suspects: Sequence[KernelCandidate], bench: KernelBench
) -> list[tuple[str, Timing | str]]:
    """What the plain nest takes, and each suspect or what is wrong with it; nothing on a GPU."""
    if job.plain is None:
        return []
    bench.ensure(job.plain.key, job.plain.func)
    keys = [job.plain.key, *(suspect.key for suspect in suspects)]
    try:
        answers = bench.compare(keys, job.plain.func, job.cold)
    except NotMeasured:
        return []
    names = [DEFAULT, *(suspect.implementation for suspect in suspects)]
    return list(zip(names, answers, strict=True))


def _differs(reason: str, of: str) -> str:
    return f"it computes something else than {of}: {reason}"
