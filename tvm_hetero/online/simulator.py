"""A pipeline replayed from a recorded table: always full, disturbed by plan, no noise unless asked.

Discrete events, in the order of the requests. With K stages K + 1 requests are in flight; a new one
enters when the oldest ends. A place takes one stage after the other, first come, first served:

    start(q, s) = max(end(q, s - 1), place of s free)       end(q, s) = start + seconds of stage s

After a switch new requests go by the new configuration while those in flight end by the old one,
on the same places. A policy learns of a request when it has ended, so that those which entered
meanwhile still go the old way. Two things can be as in ODIN's own evaluation, as it is remembered
(docs/online.md): `Stream.instant`, a policy learns of each request before the next one enters,
and `Stream.serial`, requests of a trial go through the pipeline one at a time.

"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tvm_hetero.errors import UsageError
from tvm_hetero.online.observation import Observation, StageTime
from tvm_hetero.online.optimum import find_optimum
from tvm_hetero.online.own_plan import check_arrangement
from tvm_hetero.online.policy import Policy, Proposal, Setting
from tvm_hetero.online.stream import Forecast, NoiseSource, Stream, Weather
from tvm_hetero.util.statistics import quantile

# 1.4826 times the median absolute deviation is the standard deviation of normal noise.
_MAD = 1.4826
# Requests after which it is told how many there were.
_TOLD = 64


@dataclass(frozen=True)
class Turnover:
    """From request `request` on the pipeline was to be `proposal`."""

    request: int
    seconds: float
    proposal: Proposal


@dataclass
class StreamReplay:
    """What came of it: when each request entered and ended (s), and what the policy did.

    Attributes
    ----------
    bottlenecks : of each request, the slowest stage's time.
    turnovers : the first proposal, then those that switched, tried or settled.
    """

    entered: list[float] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    bottlenecks: list[float] = field(default_factory=list)
    trying: list[bool] = field(default_factory=list)
    turnovers: list[Turnover] = field(default_factory=list)

    @property
    def latencies(self) -> list[float]:
        """Seconds from entering to the end, of each request."""
        return [end - begin for begin, end in zip(self.entered, self.ended, strict=True)]

    @property
    def throughput(self) -> float:
        """Requests/s from begin to end."""
        return len(self.ended) / self.ended[-1]

    @property
    def trials(self) -> int:
        """Configurations that were tried."""
        return sum(turnover.proposal.searching for turnover in self.turnovers)

    @property
    def searches(self) -> int:
        """How often something was looked for."""
        return sum(turnover.proposal.phase == "settled" for turnover in self.turnovers)

    @property
    def switches(self) -> int:
        """How often the configuration changed."""
        ways = [turnover.proposal.configuration for turnover in self.turnovers]
        return sum(a != b for a, b in pairwise(ways))

    def rates(self, requests: int) -> list[float]:
        """Requests/s of each window of so many requests; what is left over at the end is none."""
        ends = [0.0, *self.ended]
        steps = range(requests, len(ends), requests)
        return [requests / max(ends[i] - ends[i - requests], 1e-300) for i in steps]

    def latency_quantile(self, fraction: float) -> float:
        """The latency that this share of requests keeps."""
        return quantile(sorted(self.latencies), fraction)


def replay_stream(
    policy: Policy,
    setting: Setting,
    stream: Stream,
    tell: Callable[[int, int], None] = lambda _done, _total: None,
) -> StreamReplay:
    """Let a policy drive a stream; `tell` hears now and then how many requests have entered.

    Raises
    ------
    UsageError
        If the policy proposes something that is no configuration of these blocks and places.
    """
    return _Run(policy, setting, stream).run(tell)


class _Run:
    """A stream on its way: clocks of the places, the window that is watched."""

    def __init__(self, policy: Policy, setting: Setting, stream: Stream) -> None:
        self.policy, self.stream = policy, stream
        self.found = StreamReplay()
        self.free = [0.0] * len(stream.places)
        self.weather = Forecast(stream)
        self.noise = NoiseSource(stream)
        self.state, proposal = policy.begin(setting)
        # Requests of the window: number, end, seconds of the stages.
        self.window: list[tuple[float, tuple[float, ...]]] = []
        self.waiting: list[tuple[float, Observation]] = []
        self.proposal = proposal
        self.adopt(proposal, 0)

    def run(self, tell: Callable[[int, int], None]) -> StreamReplay:
        """All requests, one after the other."""
        for q in range(self.stream.requests):
            if q % _TOLD == 0:
                tell(q, self.stream.requests)
            entry = self.entry(q)
            while self.waiting and self.waiting[0][0] <= entry:
                self.report(self.waiting.pop(0)[1], q)
                entry = self.entry(q)
            self.compute(q, entry)
        return self.found

    def entry(self, q: int) -> float:
        """When request q may enter."""
        ended = self.found.ended
        if self.stream.serial and self.proposal.searching:
            return ended[-1] if ended else 0.0
        behind = q - len(self.proposal.configuration) - 1
        last = self.found.entered[-1] if q else 0.0
        return max(last, ended[behind]) if behind >= 0 else last

    def compute(self, q: int, entry: float) -> None:
        """Send a request through the stages."""
        configuration = self.proposal.configuration
        now, times = entry, []
        weather = self.weather.at(q)
        for s, place in enumerate(configuration.places):
            start = max(now, self.free[place])
            if self.stream.unit == "seconds":
                weather = self.weather.at(start)
            time = self.weather.times(configuration, weather)[s] * self.noise.next()
            now = self.free[place] = start + time
            times.append(time)
        found = self.found
        found.entered.append(entry)
        found.ended.append(max(now, found.ended[-1] if found.ended else 0.0))
        found.bottlenecks.append(max(times))
        found.trying.append(self.proposal.searching)
        self.window.append((found.ended[-1], tuple(times)))
        if len(self.window) >= self.proposal.requests:
            self.close(q)

    def close(self, q: int) -> None:
        """The window is full: the policy learns of it now, or when its last request has ended."""
        observation = self.observe()
        self.window = []
        if self.stream.instant:
            self.report(observation, q + 1)
        else:
            self.waiting.append((self.found.ended[-1], observation))

    def observe(self) -> Observation:
        """What the window showed."""
        rows = list(zip(*(times for _, times in self.window), strict=True))
        ends = [end for end, _ in self.window]
        count = len(ends)
        stages = tuple(_stage_time(row) for row in rows)
        configuration = self.proposal.configuration
        # The first requests found the pipeline still going the old way.
        filling = len(configuration) + 1
        throughput = None
        if count >= filling + 3 and not (self.stream.serial and self.proposal.searching):
            span = ends[-1] - ends[filling]
            throughput = (count - 1 - filling) / span if span > 0 else None
        before = self.found.ended[-count - 1] if len(self.found.ended) > count else 0.0
        return Observation(configuration, count, ends[-1] - before, throughput, stages)

    def report(self, observation: Observation, q: int) -> None:
        """Ask the policy, and do what it says from request q on."""
        self.state, proposal = self.policy.step(self.state, observation)
        same = proposal.configuration == self.proposal.configuration
        if not same or proposal.searching != self.proposal.searching:
            self.window, self.waiting = [], []  # what went the old way is not asked for any more
        if not same or proposal.phase != "keep":
            self.adopt(proposal, q)
        self.proposal = proposal

    def adopt(self, proposal: Proposal, q: int) -> None:
        """Note a proposal that is not merely to watch on."""
        setting = self.stream
        blocks = len(setting.recording.blocks)
        check_arrangement(proposal.configuration, blocks, setting.places)
        now = self.found.ended[-1] if self.found.ended else 0.0
        self.found.turnovers.append(Turnover(q, now, proposal))


def _stage_time(row: Sequence[float]) -> StageTime:
    if len(row) == 1:
        return StageTime(row[0])
    middle = statistics.median(row)
    return StageTime(middle, _MAD * statistics.median(abs(time - middle) for time in row))


def best_throughput(stream: Stream) -> list[float]:
    """Of each request the highest requests/s that any configuration has in its scenario.

    What an exhaustive search under the same disturbance would find; by request number only.
    """
    if stream.unit != "requests":
        raise UsageError("the best throughput is known of disturbances by request number only")
    forecast = Forecast(stream)
    known: dict[Weather, float] = {}
    found = []
    for q in range(stream.requests):
        weather = forecast.at(q)
        if weather not in known:
            optimum = find_optimum(forecast.table(weather), stream.places)
            known[weather] = 1 / optimum.bottleneck if optimum.proven else math.nan
        found.append(known[weather])
    return found
