"""Configurations of a pipeline: contiguous stages of blocks, each on an execution place.

A network is a chain of n blocks, 0 to n - 1. A *place* is a team of cores of one kind; two places
that share a core exclude each other. A *configuration* cuts the chain into K stages:

    ends[s]     one past the last block of stage s; strictly rising, the last is n
    places[s]   position of the place that runs stage s; no two share a core

A configuration alone is plain positions, so it can be compared and hashed; what they mean is in
the places, which never change while a pipeline runs (`check_configuration`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from tvm_hetero.errors import UsageError
from tvm_hetero.util.quote import quote


@dataclass(frozen=True)
class Place:
    """An execution place: a team of cores of one kind that computes one stage at a time.

    Attributes
    ----------
    name : unique among the places (``big``, ``cores0-1``).
    kind : places of one kind and width are equally fast while nothing disturbs them.
    cores : numbers of its cores; places with one in common exclude each other.
    """

    name: str
    kind: str
    cores: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.cores or len(set(self.cores)) < len(self.cores):
            raise UsageError(
                f"place {quote(self.name)}: expected the numbers of its cores, each once, "
                f"got {list(self.cores)}"
            )

    @property
    def width(self) -> int:
        """How many cores compute a block together."""
        return len(self.cores)

    def excludes(self, other: Place) -> bool:
        """Whether the two share a core."""
        return not set(self.cores).isdisjoint(other.cores)


@dataclass(frozen=True)
class Configuration:
    """Stages (`ends`) and where they run (`places`); see the head of this file.

    Raises
    ------
    UsageError
        When it is made: no stage, an empty one, or a place twice.
    """

    ends: tuple[int, ...]
    places: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.ends or len(self.ends) != len(self.places):
            raise UsageError(
                "a configuration has at least one stage, and a place for each; "
                f"got ends {self.ends} and places {self.places}"
            )
        if self.ends[0] < 1 or any(a >= b for a, b in pairwise(self.ends)):
            raise UsageError(f"no stage may be empty; expected rising ends, got {self.ends}")
        if len(set(self.places)) < len(self.places) or min(self.places) < 0:
            raise UsageError(f"each stage has a place of its own; got places {self.places}")

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def blocks(self) -> int:
        """How many blocks the chain has."""
        return self.ends[-1]

    @property
    def begins(self) -> tuple[int, ...]:
        """The first block of each stage."""
        return (0, *self.ends[:-1])

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """(first block, one past the last) of each stage."""
        return tuple(zip(self.begins, self.ends, strict=True))

    def text(self, places: Sequence[Place]) -> str:
        """For people: ``0-4@big 5-9@little``; one block alone is ``5@little``."""
        return " ".join(
            f"{self.stage_text(s)}@{places[place].name}" for s, place in enumerate(self.places)
        )

    def stage_text(self, stage: int) -> str:
        """The blocks of a stage, for people."""
        first, last = self.ranges[stage]
        return f"{first}" if last == first + 1 else f"{first}-{last - 1}"


def check_places(places: Sequence[Place]) -> None:
    """Refuse places that cannot be told apart.

    Raises
    ------
    UsageError
        If there are none, or two have one name.
    """
    names = [place.name for place in places]
    if not names or len(set(names)) < len(names):
        raise UsageError(f"expected places with a name of its own each, got {names}")


def check_configuration(configuration: Configuration, blocks: int, places: Sequence[Place]) -> None:
    """Refuse a configuration that is none of this chain and these places.

    Raises
    ------
    UsageError
        If it ends at another block, names a place that is not there, or two that share a core.
    """
    check_coverage("configuration", configuration.blocks, blocks)
    check_used_places("configuration", configuration.places, places)


def check_coverage(what: str, covered: int, blocks: int) -> None:
    """Refuse what is of a chain with another number of blocks."""
    if covered != blocks:
        raise UsageError(f"the {what} covers {covered} blocks; the chain has {blocks}")


def check_used_places(what: str, used: Sequence[int], places: Sequence[Place]) -> None:
    """Refuse places that are not there, and two that share a core."""
    if max(used) >= len(places):
        raise UsageError(
            f"the {what} names place {max(used)}; there are {len(places)}, counted from 0"
        )
    for a, b in combinations(used, 2):
        if places[a].excludes(places[b]):
            raise UsageError(
                f"places {quote(places[a].name)} and {quote(places[b].name)} share a core, so "
                "they cannot run two stages of one pipeline"
            )


def read_configuration(text: str, blocks: int, places: Sequence[Place]) -> Configuration:
    """Read what `Configuration.text` wrote.

    Raises
    ------
    UsageError
        If it is no such text, or `check_configuration` refuses it.
    """
    number = {place.name: i for i, place in enumerate(places)}
    ends: list[int] = []
    used: list[int] = []
    for word in text.split():
        span, _, name = word.partition("@")
        first, _, last = span.partition("-")
        last = last or first
        begin = ends[-1] if ends else 0
        if name not in number or not last.isdecimal() or first != str(begin):
            raise UsageError(
                f"expected stages from block {begin} on such as {begin}-{begin + 2}@"
                f"{places[0].name}, with places {', '.join(number)}; got {quote(word)}"
            )
        ends.append(int(last) + 1)
        used.append(number[name])
    found = Configuration(tuple(ends), tuple(used))
    check_configuration(found, blocks, places)
    return found


def move(configuration: Configuration, source: int, target: int, count: int = 1) -> Configuration:
    """Take `count` blocks from stage `source` towards stage `target`.

    The boundaries between the two shift, so that stages between keep their number of blocks. A
    stage that has no more than `count` gives all it has and goes away; its place is idle then.

    Raises
    ------
    UsageError
        If the stages are the same or not there, or the count is below 1.
    """
    stages = len(configuration)
    if source == target or not (0 <= source < stages and 0 <= target < stages) or count < 1:
        raise UsageError(
            f"cannot move {count} blocks from stage {source} to stage {target} of {stages}"
        )
    first, last = configuration.ranges[source]
    count = min(count, last - first)
    ends = list(configuration.ends)
    for boundary in range(min(source, target), max(source, target)):
        ends[boundary] += count if target < source else -count
    if count == last - first:  # the two ends of the empty stage are the same
        del ends[source]
        return Configuration(
            tuple(ends), configuration.places[:source] + configuration.places[source + 1 :]
        )
    return Configuration(tuple(ends), configuration.places)


def neighbours(configuration: Configuration, places: Sequence[Place]) -> Iterator[Configuration]:
    """All configurations one step away, each once, in a fixed order.

    One block over a boundary; two stages' places swapped; a stage on an idle place instead of its
    own; a stage split in two, one half on an idle place. From any configuration every other one
    can be reached, where all places can be used alone.
    """
    stages = range(len(configuration))
    ends, used = configuration.ends, configuration.places
    for a, b in pairwise(stages):
        yield move(configuration, a, b)
        yield move(configuration, b, a)
    for a, b in combinations(stages, 2):
        swapped = list(used)
        swapped[a], swapped[b] = used[b], used[a]
        yield Configuration(ends, tuple(swapped))
    for s in stages:
        others = [places[p] for p in used[:s] + used[s + 1 :]]
        for idle in _compatible(places, used, others):
            yield Configuration(ends, (*used[:s], idle, *used[s + 1 :]))
    yield from _splits(configuration, places)


def _splits(configuration: Configuration, places: Sequence[Place]) -> Iterator[Configuration]:
    """A stage cut in two at any block, one of the halves on an idle place."""
    used = configuration.places
    idle = list(_compatible(places, used, [places[p] for p in used]))
    for s, (first, last) in enumerate(configuration.ranges):
        for cut in range(first + 1, last):
            ends = (*configuration.ends[:s], cut, *configuration.ends[s:])
            for place in idle:
                yield Configuration(ends, (*used[:s], place, *used[s:]))
                yield Configuration(ends, (*used[: s + 1], place, *used[s + 1 :]))


def _compatible(
    places: Sequence[Place], used: Sequence[int], beside: Sequence[Place]
) -> Iterator[int]:
    """Places that are not in use and share no core with those `beside`."""
    for p, place in enumerate(places):
        if p not in used and not any(place.excludes(other) for other in beside):
            yield p
