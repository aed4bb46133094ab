"""The interface of policies: pure functions from what was seen to what to do next.

    begin(setting)              -> (state, proposal)
    step(state, observation)    -> (state, proposal)

A state is frozen and means nothing to anyone but its policy. Whoever drives one (a live executor,
the simulator, a test) does what the last proposal says, watches that many requests, and hands what
it saw to `step`. The same observations lead to the same proposals: no clock, no hidden random
numbers. Policies by name: `tvm_hetero.online.policies`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tvm_hetero.errors import UsageError
from tvm_hetero.online.configuration import (
    Configuration,
    Place,
    check_configuration,
    check_places,
)
from tvm_hetero.online.observation import Observation
from tvm_hetero.online.own_plan import Arrangement, check_arrangement

# keep      watch on: nothing is being looked for
# try       a trial of a search; the configuration may be worse
# settled   a search ended just now, with this configuration
Phase = Literal["keep", "try", "settled"]
# A place of w cores is guessed to be this power of w as fast as one core, until it is measured.
_SCALING = 0.9
# No block takes less than this share of the heaviest one.
_TINY = 1e-9


@dataclass(frozen=True)
class Setting:
    """What a policy knows before anything ran.

    Attributes
    ----------
    places : where stages can run.
    weights : hinted work of each block, in any unit (multiply-adds, or seconds somewhere).
    static : contiguous stages to begin with: the best by what is known in quiet.
    seconds : measured seconds[block][place], in quiet; None where only hints are known.
    speeds : hinted speed of each place, in any unit; () for what its width lets expect.
    classes : of each block, what bounds it (``compute``, ``memory``): blocks of one class are
        expected to suffer alike from one disturbance; () if nobody knows.
    alpha : trials without gain after which a search gives up.
    margin : by which share a rate has to be larger to count as better.
    window : requests that are watched where nothing is looked for; trial : those of a trial.
    patience : windows in a row that have to agree before anything counts as changed.
    rest : the most windows without a search after one that gained nothing; 0: no rest at all.
    deviation : the least share by which a stage's time has to change to count.
    seed : of random choices.
    own : the artifact's own plan, which a policy that can judge it begins with; None: unknown.
    """

    places: tuple[Place, ...]
    weights: tuple[float, ...]
    static: Configuration
    seconds: tuple[tuple[float, ...], ...] | None = None
    speeds: tuple[float, ...] = ()
    classes: tuple[str, ...] = ()
    alpha: int = 10
    margin: float = 0.01
    window: int = 20
    trial: int = 5
    patience: int = 3
    rest: int = 64
    deviation: float = 0.08
    seed: int = 0
    own: Arrangement | None = None

    def __post_init__(self) -> None:
        check_places(self.places)
        check_configuration(self.static, len(self.weights), self.places)
        check_arrangement(self.first, len(self.weights), self.places)
        _check_hints(self)

    @property
    def blocks(self) -> int:
        """How many blocks the chain has."""
        return len(self.weights)

    @property
    def first(self) -> Arrangement:
        """The plan that was made in quiet: the artifact's own one, else the static stages."""
        return self.static if self.own is None else self.own

    @property
    def guessed(self) -> tuple[tuple[float, ...], ...]:
        """seconds[block][place]: measured ones, else weights over speeds (in no unit)."""
        if self.seconds is not None:
            return self.seconds
        speeds, tiny = self.hinted_speeds, _TINY * (max(self.weights) or 1.0)
        return tuple(tuple(max(w, tiny) / speed for speed in speeds) for w in self.weights)

    @property
    def hinted_speeds(self) -> tuple[float, ...]:
        """The speed of each place: as hinted, or as its width lets expect."""
        return self.speeds or tuple(float(place.width**_SCALING) for place in self.places)


def _check_hints(setting: Setting) -> None:
    if not all(weight >= 0 for weight in setting.weights):
        raise UsageError("weights of blocks are at least 0")
    if setting.speeds and (len(setting.speeds) != len(setting.places) or min(setting.speeds) <= 0):
        raise UsageError(f"expected a speed above 0 for each place, got {setting.speeds}")
    if setting.classes and len(setting.classes) != setting.blocks:
        raise UsageError(f"expected a class for each block, got {len(setting.classes)}")
    counts = (setting.alpha, setting.window, setting.trial, setting.patience)
    if min(counts) < 1 or min(setting.margin, setting.rest, setting.deviation) < 0:
        raise UsageError(
            "alpha, window, trial and patience are at least 1, margin and rest at least 0; got "
            f"{counts}, {setting.margin} and {setting.rest}"
        )
    if setting.seconds is not None and not _are_times(setting.seconds, setting):
        raise UsageError(
            "seconds: expected a time above 0 for each block on each place; leave out places that "
            "cannot run all blocks"
        )


def _are_times(rows: tuple[tuple[float, ...], ...], setting: Setting) -> bool:
    count = len(setting.places)
    return len(rows) == setting.blocks and all(
        len(row) == count and 0 < min(row) <= max(row) < math.inf for row in rows
    )


@dataclass(frozen=True)
class Proposal:
    """What a policy wants next.

    Attributes
    ----------
    configuration : for the next window; the same as before means no switch.
    requests : how many to watch.
    phase : see `Phase`.
    why : a sentence for people.
    """

    configuration: Arrangement
    requests: int
    phase: Phase
    why: str

    def __post_init__(self) -> None:
        if self.requests < 1:
            raise UsageError(f"a proposal watches at least one request, got {self.requests}")

    @property
    def searching(self) -> bool:
        """Whether this is a trial."""
        return self.phase == "try"


# A state, of whatever type its policy makes it.
Turn = tuple[Any, Proposal]


class Policy(NamedTuple):
    """A policy: its two functions, and whether it reads `Setting.seconds`."""

    name: str
    begin: Callable[[Setting], Turn]
    step: Callable[[Any, Observation], Turn]
