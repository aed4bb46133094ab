"""One run of profiling: what is known is looked up, the rest compiled and measured.

Devices of equal targets share what is compiled. On each of them, phases follow each other:

    rules      every kernel by its rule, in rounds (`tvm_hetero.cost_models.kernels_alone.sampling`)
    contests   kernels that can be computed in other ways too, each against its rule
    rescue     kernels whose rule gave no time, as the default loop nest

Times are stored every half second (a commit takes the disk longer than most kernels take) and when
a phase ends, be it by an interruption: so that loses nothing, and a killed process next to nothing.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tvm_hetero.compiler.linking import linker_of
from tvm_hetero.cost_models.kernels_alone.bench import WORKER, KernelBench, NotMeasured
from tvm_hetero.cost_models.kernels_alone.candidates import (
    KernelCandidate,
    KernelJob,
    Schedule,
    make_jobs,
    target_name,
)
from tvm_hetero.cost_models.kernels_alone.choose_implementation import (
    ImplementationVerdict,
    choose_implementation,
)
from tvm_hetero.cost_models.kernels_alone.compile_kernels import Compiled, compile_kernels
from tvm_hetero.cost_models.kernels_alone.profile import Profile
from tvm_hetero.cost_models.kernels_alone.sampling import SamplingPolicy, is_settled
from tvm_hetero.cost_models.protocol import Progress, warn_left_out, warn_refused
from tvm_hetero.cost_models.store import CostStore, KernelKey, MeasuringPlace
from tvm_hetero.cost_models.store.identity import place_of
from tvm_hetero.devices.target import device_target
from tvm_hetero.kernels.tir.implementation_attr import DEFAULT, RULE, TUNED
from tvm_hetero.passes.kernel import Kernel
from tvm_hetero.platform.devices import Device
from tvm_hetero.platform.host import cores_at_once
from tvm_hetero.platform.model import Platform
from tvm_hetero.problem.implementation_choice import Choice, Timing, fastest
from tvm_hetero.processes.child_process import Worker
from tvm_hetero.util.code_folder import code_folder
from tvm_hetero.util.leftovers import temporary_folder

if TYPE_CHECKING:
    from tvm.tirx import PrimFunc

# Children that help to compile; each takes half a second to start, and 200 MB.
_MOST_HELPERS = 4
_SAVE_SECONDS = 0.5


@dataclass(frozen=True)
class Setup:
    """How kernels are scheduled and measured, and where times are kept.

    `decided` is that of `candidates.make_jobs`.
    """

    store: CostStore
    effort: SamplingPolicy
    schedule: Schedule
    decided: Mapping[KernelKey, str] = field(default_factory=dict)


class TargetRun:
    """The measurements for all devices of one target. Fills a profile."""

    def __init__(
        self,
        setup: Setup,
        profile: Profile,
        kernels: Sequence[Kernel],
        platform: Platform,
        devices: Sequence[Device],
        progress: Progress | None,
    ) -> None:
        self.setup = setup
        self.profile = profile
        self.platform = platform
        self.devices = devices
        self.progress = progress
        self.target = device_target(devices[0])
        self._compiled = 0
        with self.profile.timed("schedule"):
            self.jobs = make_jobs(
                kernels, self.target, setup.schedule, setup.store, self.tell, setup.decided
            )

    def measure(self) -> None:
        """Find what is known, compile the rest in one go, run it device by device."""
        runs = [_DeviceRun(self, device) for device in self.devices]
        wanted = {c.key: c.func for run in runs for c in run.wanted()}
        with temporary_folder("tvm-hetero-", code_folder()) as folder:
            with _workers(bool(wanted)) as workers:
                compiled = self.compile(wanted, folder, workers)
                # One of those that helped to compile runs the kernels: it has loaded TVM.
                for run in runs:
                    run.measure(compiled, workers.pop() if workers else None, folder)
            for run in runs:
                run.rescue(folder)
                run.choose()

    def compile(
        self, wanted: dict[KernelKey, PrimFunc], folder: Path, workers: Sequence[Worker] = ()
    ) -> Compiled:
        """Compile scheduled functions into a folder of their own; no two symbols are alike."""
        if not wanted:
            return Compiled()
        linker_of(self.target)  # else each kernel would fail by itself
        step = f"compile for {target_name(self.target)}"
        self.tell(step, 0, len(wanted))
        with self.profile.timed("compile"):
            where = Path(tempfile.mkdtemp(dir=folder))
            self._compiled += len(wanted)
            return compile_kernels(
                wanted,
                self.target,
                where,
                workers,
                lambda done: self.tell(step, done, len(wanted)),
                self._compiled - len(wanted),
            )

    def tell(self, what: str, done: int, total: int) -> None:
        """Tell who wants to know how far we are."""
        if self.progress is not None:
            self.progress(what, done, total)


class _DeviceRun:
    """The measurements on one device."""

    def __init__(self, run: TargetRun, device: Device) -> None:
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
            if (job.others or job.reference is not None)
            and (RULE not in self._times(job) or len(self._times(job)) <= len(job.others))
        ]

    def wanted(self) -> Iterator[KernelCandidate]:
        """What has to be compiled for the rules and the contests."""
        yield from (job.by_rule for job in self.new)
        for job in self.contests:
            yield from (job.by_rule, *job.others)
            yield from (one for one in (job.reference,) if one is not None)

    def measure(self, compiled: Compiled, worker: Worker | None, folder: Path) -> None:
        """Measure the rules, then the contests. The worker is ended, used or not."""
        more = partial(self.run.compile, folder=folder)
        with KernelBench(
            self.run.platform, self.device, compiled, self.effort, worker, more
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
        self._keep(job, RULE, timing)
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


@contextmanager
def _workers(needed: bool) -> Iterator[list[Worker]]:
    """Children to compile and measure; one for each core but ours, and one at least."""
    count = min(max(1, cores_at_once() - 1), _MOST_HELPERS) if needed else 0
    workers = [Worker(WORKER) for _ in range(count)]
    started = list(workers)
    try:
        yield workers
    finally:
        for worker in started:
            worker.close()
