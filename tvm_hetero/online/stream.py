"""What is replayed: a recorded table, places, how many requests, and what disturbs them when.

Disturbances are by request number or by time; of two that are on one place at once the later one
in the list counts. All at one moment are its `Weather`.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

from tvm_hetero.errors import UsageError
from tvm_hetero.online.configuration import Place
from tvm_hetero.online.optimum import stage_seconds
from tvm_hetero.online.own_plan import Arrangement
from tvm_hetero.online.table import Recording

# Which scenario each disturbed place has.
Weather = tuple[tuple[int, str], ...]


@dataclass(frozen=True)
class Disturbance:
    """`scenario` on `place` from `begin` to before `end`: request numbers, or seconds."""

    scenario: str
    place: int
    begin: float
    end: float


@dataclass(frozen=True)
class Stream:
    """What is replayed.

    Attributes
    ----------
    requests : how many.
    disturbances : of two that are on one place at once the later one in the list counts.
    unit : of their begin and end.
    instant, serial : see the head of the file.
    noise_seed : where the recording's noise begins; None: there is none.
    """

    recording: Recording
    places: tuple[Place, ...]
    requests: int
    disturbances: tuple[Disturbance, ...] = ()
    unit: Literal["requests", "seconds"] = "requests"
    instant: bool = False
    serial: bool = False
    noise_seed: int | None = None

    def __post_init__(self) -> None:
        if self.requests < 1:
            raise UsageError(f"expected at least one request, got {self.requests}")
        for each in self.disturbances:
            if not 0 <= each.place < len(self.places):
                raise UsageError(f"there is no place {each.place} to be disturbed")
            self.recording.column(each.scenario, self.places[each.place])


class Forecast:
    """Which scenario is where and when, and what stages take then."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        edges = {0.0, *(e for d in stream.disturbances for e in (d.begin, d.end))}
        self.edges = sorted(edges)
        self.spans = [self._between(begin) for begin in self.edges]
        self.position = 0
        self.known: dict[tuple[Arrangement, Weather], tuple[float, ...]] = {}
        self.tables: dict[Weather, tuple[tuple[float, ...], ...]] = {}

    def _between(self, when: float) -> Weather:
        found = {d.place: d.scenario for d in self.stream.disturbances if d.begin <= when < d.end}
        return tuple(sorted(found.items()))

    def at(self, when: float) -> Weather:
        """The scenarios at a request, or at a time; asked in nearly rising order."""
        edges = self.edges
        while self.position + 1 < len(edges) and edges[self.position + 1] <= when:
            self.position += 1
        while self.position and edges[self.position] > when:
            self.position -= 1
        return self.spans[self.position]

    def times(self, configuration: Arrangement, weather: Weather) -> tuple[float, ...]:
        """Seconds of each stage."""
        key = configuration, weather
        if key not in self.known:
            self.known[key] = stage_seconds(self.table(weather), configuration)
        return self.known[key]

    def table(self, weather: Weather) -> tuple[tuple[float, ...], ...]:
        """seconds[block][place]."""
        if weather not in self.tables:
            stream = self.stream
            self.tables[weather] = stream.recording.seconds_on(stream.places, dict(weather))
        return self.tables[weather]


class NoiseSource:
    """The recording's noise, from a random place on, over and over."""

    def __init__(self, stream: Stream) -> None:
        self.ratios = stream.recording.noise if stream.noise_seed is not None else ()
        if stream.noise_seed is not None and not self.ratios:
            raise UsageError(
                f"recording {stream.recording.name!r} has no noise; leave noise_seed out"
            )
        count = len(self.ratios)
        self.place = random.Random(stream.noise_seed).randrange(count) if count else 0

    def next(self) -> float:
        """By which factor the next stage takes longer."""
        if not self.ratios:
            return 1.0
        self.place = (self.place + 1) % len(self.ratios)
        return self.ratios[self.place]
