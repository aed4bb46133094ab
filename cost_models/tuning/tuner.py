"""Tuning: the search for a schedule of one kernel that beats the rule's.

    candidates   from two spaces, ours first, MetaSchedule's then (`tvm_hetero.cost_models.
                 tune_spaces`); the first has at most `_OUR_SHARE` of the trials
    a trial      build, run once, compare with the rule's output, then run in turns with the
                 rule's schedule, in a child process on the device's own cores (`tune_bench`)
    the end      the best few once more, all in turns with the rule's, and longer; the best of
                 them is kept if it beats the rule by more than both spreads and than `_MARGIN`

Every trial is in the store when the next one begins, so an interrupted search goes on where it
was: what was tried is not tried again, and what was learnt is what the search goes on from. The
trials of a kernel count over all runs.

A candidate is stored as a trace (`tvm_hetero.kernels.tuning.trace`), under the key of the
unscheduled function, the target and the version of TVM.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Protocol

from tvm_hetero.cost_models.kernels_alone.bench import NotMeasured
from tvm_hetero.cost_models.kernels_alone.sampling import TOLERANCE, SamplingPolicy
from tvm_hetero.cost_models.store import CostStore, KernelKey, Tuning
from tvm_hetero.cost_models.store.identity import kernel_key
from tvm_hetero.cost_models.tuning.tune_bench import TuneBench
from tvm_hetero.cost_models.tuning.tune_spaces import GeneralSpace, RuleSpace, TuningSpace
from tvm_hetero.devices.target import device_target
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.implementation_choice import Timing
from tvm_hetero.util.tvm_state import one_thread

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRIAL = SamplingPolicy(budget=0.01, least=3, most=30)
_FINAL = SamplingPolicy(budget=0.2, least=9, most=500)
_FINALISTS = 3
# Measured (docs/kernels.md): where our space has any schedules, its best is far ahead of what
# MetaSchedule's finds in 64 trials; where it has none, MetaSchedule has all trials anyway.
_OUR_SHARE = 0.75
# A tuned schedule must be faster by this part of its time at least.
_MARGIN = TOLERANCE

# Told after every trial: how many are done, and the rule's time over the best so far.
Watch = Callable[[int, float], None]


@dataclass(frozen=True)
class TuningLimits:
    """How long a search goes on.

    Attributes
    ----------
    trials : of a kernel, those of earlier runs included.
    deadline : `time.monotonic` at which no further trial begins.
    """

    trials: int
    deadline: float = float("inf")


class Bench(Protocol):
    """What measures: `TuneBench`, or what is as good as that."""

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> None: ...

    def compare(self, traces: Sequence[str], effort: SamplingPolicy) -> Sequence[Timing | str]:
        """Times of the rule's schedule and of each trace, in turns; or why there is none."""
        ...


class KernelTuner:
    """The search for one kernel on one device."""

    def __init__(
        self,
        kernel: Kernel,
        platform: Platform,
        device: Device,
        store: CostStore,
        seed: int = 0,
        limit: float = 30.0,
        bench: Bench | None = None,
    ) -> None:
        """`limit`: seconds for one trial, compilation included; `bench`: what measures instead."""
        self.kernel = kernel
        self.store = store
        self.seed = seed
        self.key: KernelKey = kernel_key(kernel.func)
        self.target = device_target(device)
        self.known = store.candidates(self.key, self._target)
        self.rule = math.inf  # the best that was seen of the rule's schedule, s
        self._bench = bench or TuneBench(platform, device, kernel, limit)

    @property
    def _target(self) -> str:
        return str(self.target)

    def spaces(self, trials: int) -> list[TuningSpace]:
        """Where candidates come from, in order, for so many trials."""
        return [
            RuleSpace(self.kernel.func, self.target, math.ceil(_OUR_SHARE * trials)),
            GeneralSpace(self.kernel.func, self.target, self.seed),
        ]

    @one_thread
    def tune(
        self,
        limits: TuningLimits,
        watch: Watch | None = None,
        spaces: Sequence[TuningSpace] | None = None,
    ) -> Tuning:
        """Search until a limit is reached, then decide; what is known already is not tried again.

        An interruption (Ctrl-C) is raised again after the decision on what was found so far.

        Parameters
        ----------
        limits : how long.
        watch : told after every trial.
        spaces : where candidates come from, instead of `self.spaces`.

        Raises
        ------
        NotMeasured
            If the rule's own schedule does not run: there is nothing to compare with.
        """
        before = self.store.tuning(self.key, self._target)
        if before is not None and before.trials >= limits.trials:
            return before
        with self._bench:
            self._note_rule(*self._bench.compare([], _TRIAL))
            try:
                self._search(limits, spaces or self.spaces(limits.trials), watch)
            finally:
                tuning = self._decide()
                self.store.set_tuning(self.key, self._target, tuning)
        return tuning

    def _search(
        self, limits: TuningLimits, spaces: Sequence[TuningSpace], watch: Watch | None
    ) -> None:
        proposals: Iterator[str] = chain.from_iterable(s.propose(self.known) for s in spaces)
        while len(self.known) < limits.trials and time.monotonic() < limits.deadline:
            trace = next(proposals, None)
            if trace is None:
                return
            self._try(trace)
            if watch is not None:
                watch(len(self.known), max(1.0, self.rule / self._best()))

    def _try(self, trace: str) -> None:
        seconds = None
        try:
            rule, found = self._bench.compare([trace], _TRIAL)
        except NotMeasured:
            pass  # it cannot be built, crashes or hangs: a trial all the same
        else:
            self._note_rule(rule)
            seconds = found.seconds if isinstance(found, Timing) else None
        self.known[trace] = seconds
        self.store.add_candidate(self.key, self._target, trace, seconds)

    def _note_rule(self, timing: Timing | str) -> None:
        if isinstance(timing, Timing):
            self.rule = min(self.rule, timing.seconds)

    def _best(self) -> float:
        return min((s for s in self.known.values() if s is not None), default=self.rule)

    def _decide(self) -> Tuning:
        """Run the best few against the rule's schedule once more, and choose."""
        times = {trace: s for trace, s in self.known.items() if s is not None and s < self.rule}
        finalists = sorted(times, key=lambda trace: times[trace])[:_FINALISTS]
        found = self._final(finalists)
        trace = min(found, key=lambda trace: found[trace], default=None)
        seconds = None if trace is None else found[trace]
        return Tuning(trace, seconds, self.rule, len(self.known))

    def _final(self, traces: Sequence[str]) -> dict[str, float]:
        """Seconds of those of the traces that beat the rule, in turns with it and each other.

        Of all times of one schedule the smallest counts, the rule's no less than the others'.
        """
        if not traces:
            return {}
        try:
            rule, *found = self._bench.compare(traces, _FINAL)
        except NotMeasured:  # what worked once and does not any more is not to be trusted
            return {}
        if not isinstance(rule, Timing):
            return {}
        self._note_rule(rule)
        measure = Timing(self.rule, rule.spread)
        best = {
            trace: Timing(min(timing.seconds, self.known[trace] or math.inf), timing.spread)
            for trace, timing in zip(traces, found, strict=True)
            if isinstance(timing, Timing)
        }
        return {trace: timing.seconds for trace, timing in best.items() if beats(timing, measure)}


def beats(candidate: Timing, rule: Timing) -> bool:
    """Whether a candidate is faster than the rule's schedule beyond doubt."""
    doubt = max(candidate.spread or 0.0, rule.spread or 0.0, _MARGIN * rule.seconds)
    return candidate.seconds + doubt < rule.seconds
