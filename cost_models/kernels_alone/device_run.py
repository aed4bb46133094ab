"""The measurements of one target's kernels on one device.

Times are stored every half second (a commit takes the disk longer than most kernels take) and when
a phase ends, be it by an interruption: so that loses nothing, and a killed process next to nothing.
What has to be compared with a CPU first is stored when it has been: a time in the store is one of a
kernel that is right.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tvm_hetero.cost_models.kernels_alone.bench import KernelBench, NotMeasured
from tvm_hetero.cost_models.kernels_alone.candidates import KernelCandidate, KernelJob
from tvm_hetero.cost_models.kernels_alone.choose_implementation import (
    ImplementationVerdict,
    choose_implementation,
)
from tvm_hetero.cost_models.kernels_alone.compile_kernels import Compiled
from tvm_hetero.cost_models.kernels_alone.sampling import is_settled
from tvm_hetero.cost_models.kernels_alone.target_jobs import TargetJobs
from tvm_hetero.cost_models.protocol import warn_left_out, warn_refused
from tvm_hetero.cost_models.store import KernelKey, MeasuringPlace
from tvm_hetero.cost_models.store.identity import place_of
from tvm_hetero.kernels.tir.implementation_attr import DEFAULT, RULE, TUNED
from tvm_hetero.platform.devices import Device
from tvm_hetero.problem.implementation_choice import Choice, Timing, fastest
from tvm_hetero.processes.child_process import Worker

_SAVE_SECONDS = 0.5


class DeviceRun:
    """The measurements on one device."""

    def __init__(self, run: TargetJobs, device: Device) -> None:
        self.run = run
        self.device = device
        self.store = run.setup.store
        self.effort = run.setup.effort
        self.place = place_of(run.platform, device)
        self.verdicts: dict[KernelKey, ImplementationVerdict] = {}
        self.given_up: dict[KernelKey, str] = {}
        self._unsaved: list[tuple[KernelKey, MeasuringPlace, Timing]] = []
        self._saved = time.monotonic()
        for job in run.jobs:
            known = ((c.implementation, self._known(c)) for c in (job.by_rule, *job.others))
            times = {name: timing for name, timing in known if timing is not None}
            self.verdicts[job.key] = ImplementationVerdict(times)
        self.new = [job for job in run.jobs if RULE not in self._times(job)]
        # A rule measured again meets the others again: times of one turn are to be compared.
        self.contests = [
            job
            for job in run.jobs
            if (job.others or job.reference is not None or job.host is not None)
            and (RULE not in self._times(job) or len(self._times(job)) <= len(job.others))
        ]

    def wanted(self) -> Iterator[KernelCandidate]:
        """What has to be compiled for the rules and the contests."""
        yield from (job.by_rule for job in self.new)
        for job in self.contests:
            yield from (job.by_rule, *job.others)
            yield from (one for one in (job.reference,) if one is not None)

    def twins(self) -> Iterator[KernelCandidate]:
        """What has to be compiled for this machine's CPU, so that kernels can be compared."""
        yield from (job.host for job in self.contests if job.host is not None)

    def measure(
        self, compiled: Compiled, on_host: Compiled, worker: Worker | None, folder: Path
    ) -> None:
        """Measure the rules, then the contests. The worker is ended, used or not."""
        more = partial(self.run.compile, folder=folder)
        with KernelBench(
            self.run.platform, self.device, compiled, self.effort, worker, more, on_host
        ) as bench:
            try:
                with self.run.profile.timed("measure"):
                    self._measure_rules(bench)
                with self.run.profile.timed("compare"):
                    self._hold_contests(bench)
            finally:
                self._flush()

    def rescue(self, folder: Path) -> None:
        """Take the default loop nest where the rule gave no time at all."""
        lost = [
            job
            for job in self.run.jobs
            if job.key in self.given_up
            and _has_plain(job)
            and DEFAULT not in self.verdicts[job.key].refused
        ]
        plains = [job.plain for job in lost if job.plain is not None]
        known = {plain.key: self._known(plain) for plain in plains}
        missing = {plain.key: plain.func for plain in plains if known[plain.key] is None}
        compiled = self.run.compile(missing, folder)
        with KernelBench(self.run.platform, self.device, compiled, self.effort) as bench:
            for job, plain in zip(lost, plains, strict=True):
                try:
                    timing = known[plain.key] or bench.measure(plain.key, plain.func, job.cold)
                except NotMeasured:
                    continue  # what is said about it is why its rule failed
                self.store.add(plain.key, self.place, timing.seconds, timing.spread)
                self.verdicts[job.key] = ImplementationVerdict({DEFAULT: timing})
                self.verdicts[job.key].refuse(RULE, self.given_up[job.key])

    def choose(self) -> None:
        """Write into the profile what was chosen, and say what was refused."""
        profile, device = self.run.profile, self.device.name
        for job in self.run.jobs:
            verdict = self.verdicts[job.key]
            for name in job.names:
                for implementation, reason in verdict.refused.items():
                    warn_refused(name, device, implementation, reason)
                if not verdict.times:
                    profile.reasons[name] = f"on {device!r}, {self.given_up[job.key]}"
                    warn_left_out(name, device, self.given_up[job.key])
                    continue
                best = fastest(verdict.times)
                choice = Choice(name, device, job.rule, best, verdict.times, verdict.refused)
                profile.choices[name, device] = choice
                trace = next((c.trace for c in job.others if c.implementation == best), None)
                if best == TUNED and trace is not None:
                    profile.traces.setdefault(name, {})[device] = trace

    def _measure_rules(self, bench: KernelBench) -> None:
        """Measure in rounds, until every kernel has had enough of them."""
        waiting, done = self.new, 0
        for number in range(1, max(self.effort.rounds, self.effort.most_rounds) + 1):
            left = max(1, self.effort.rounds - number + 1) * len(waiting)
            again = []
            for job in waiting:
                if self._measure(job, bench) or number < self.effort.rounds:
                    again.append(job)
                done, left = done + 1, left - 1
                self.run.tell(f"measure on {self.device.name}", done, done + left)
            waiting = [job for job in again if job.key not in self.given_up]

    def _measure(self, job: KernelJob, bench: KernelBench) -> bool:
        """Give a job its turn; whether its smallest time is still falling."""
        before = self._times(job).get(RULE)
        try:
            timing = bench.measure(job.key, job.by_rule.func, job.cold)
        except NotMeasured as reason:
            if before is None:  # else an earlier round has its time
                self.given_up[job.key] = str(reason)
            return False
        self.run.profile.runs += 1
        if job.host is None:
            self._keep(job, RULE, timing)
        else:  # it is not known to be right yet (`_hold_contests`)
            self.verdicts[job.key].add(RULE, timing)
        return not is_settled(None if before is None else before.seconds, timing.seconds)

    def _hold_contests(self, bench: KernelBench) -> None:
        held = [job for job in self.contests if job.key not in self.given_up]
        for done, job in enumerate(held, start=1):
            verdict = choose_implementation(job, self._times(job), bench)
            self.verdicts[job.key] = verdict
            if not verdict.times:
                self.given_up[job.key] = verdict.refused[RULE]
            for name, timing in verdict.times.items():
                self._keep(job, name, timing)
            wrong = [c for c in _candidates(job) if c.implementation in verdict.refused]
            if wrong:
                self._flush()  # a time of it may be on its way
            for candidate in wrong:
                self.store.forget(candidate.key, self.place)
            self.run.tell(f"compare on {self.device.name}", done, len(held))

    def _keep(self, job: KernelJob, implementation: str, timing: Timing) -> None:
        self.verdicts[job.key].add(implementation, timing)
        key = next(c.key for c in _candidates(job) if c.implementation == implementation)
        self._unsaved.append((key, self.place, timing))
        if time.monotonic() > self._saved + _SAVE_SECONDS:
            self._flush()

    def _flush(self) -> None:
        """Store what was measured since the last time."""
        if self._unsaved:
            self.store.add_all(self._unsaved)
        self._unsaved, self._saved = [], time.monotonic()

    def _known(self, candidate: KernelCandidate) -> Timing | None:
        return self.store.timing(candidate.key, self.place)

    def _times(self, job: KernelJob) -> dict[str, Timing]:
        return self.verdicts[job.key].times


def _candidates(job: KernelJob) -> list[KernelCandidate]:
    """Everything that a job's kernel may have been measured as."""
    plain = [job.plain] if job.plain is not None else []
    return [job.by_rule, *job.others, *plain]


def _has_plain(job: KernelJob) -> bool:
    return job.plain is not None and job.plain.key != job.key
