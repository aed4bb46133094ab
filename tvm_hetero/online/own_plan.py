"""The artifact's own plan among configurations: any division of the chain, not contiguous stages.

A solver may divide a network as it likes, so its plan is mostly better in quiet than the best
contiguous stages, and nobody wants to begin with anything worse. Of the plan only two things
matter to who watches it and compares it with configurations (`Arrangement`):

    places[s]       as in a configuration; its *stage* s is all that runs on that place
    shares[s][b]    which part of block b that is, by the seconds that it takes there: 0 to 1

So for seconds[b][e] of every block on every place, disturbed or not, stage s takes the sum over b
of shares[s][b] seconds[b][places[s]]; a contiguous stage has shares of 0 and 1. Nothing can be
moved from stage to stage of it: `contiguous` refuses it where that is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_hetero.errors import UsageError
from tvm_hetero.online.configuration import (
    Configuration,
    Place,
    check_configuration,
    check_coverage,
    check_used_places,
)

# Blocks with the part of each that a stage has.
Parts = tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class OwnPlan:
    """What each place has of each block; see the head of this file.

    Raises
    ------
    UsageError
        When it is made: a place twice, a stage without work, or a share that is none.
    """

    places: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not self.places or len(self.places) != len(self.shares):
            raise UsageError(
                "a plan has at least one stage, and a place for each; got "
                f"{len(self.shares)} stages and places {self.places}"
            )
        if len(set(self.places)) < len(self.places) or min(self.places) < 0:
            raise UsageError(f"each stage has a place of its own; got places {self.places}")
        if len({len(row) for row in self.shares}) > 1 or not all(map(any, self.shares)):
            raise UsageError("each stage has a share of some block, and a row of all blocks")
        if not all(0 <= share <= 1 for row in self.shares for share in row):
            raise UsageError(f"shares of blocks are from 0 to 1; got {self.shares}")

    def __len__(self) -> int:
        return len(self.places)

    @property
    def blocks(self) -> int:
        """How many blocks the chain has."""
        return len(self.shares[0])

    def text(self, places: Sequence[Place]) -> str:
        """For people."""
        names = ", ".join(places[place].name for place in self.places)
        return f"the artifact's own plan on {names}"

    def stage_text(self, stage: int) -> str:
        """How many blocks a stage has a part of, for people."""
        return f"{sum(share > 0 for share in self.shares[stage])} blocks"


# What can run, and be watched.
Arrangement = Configuration | OwnPlan


def parts_of(arrangement: Arrangement) -> tuple[Parts, ...]:
    """Of each stage its blocks, with the part of each that it has."""
    if isinstance(arrangement, Configuration):
        return tuple(tuple((b, 1.0) for b in range(*span)) for span in arrangement.ranges)
    return tuple(
        tuple((b, share) for b, share in enumerate(row) if share) for row in arrangement.shares
    )


def contiguous(arrangement: Arrangement) -> Configuration:
    """The same, where it has to be contiguous stages.

    Raises
    ------
    UsageError
        If it is the artifact's own plan.
    """
    if isinstance(arrangement, Configuration):
        return arrangement
    raise UsageError(
        "expected contiguous stages, got the artifact's own plan, which may be any division; give "
        "a configuration such as the setting's static one"
    )


def check_arrangement(arrangement: Arrangement, blocks: int, places: Sequence[Place]) -> None:
    """Refuse what is none of this chain and these places (see `check_configuration`)."""
    if isinstance(arrangement, Configuration):
        check_configuration(arrangement, blocks, places)
        return
    check_coverage("plan", arrangement.blocks, blocks)
    check_used_places("plan", arrangement.places, places)


def arrangement_of(places: Sequence[int], shares: Sequence[Sequence[float]]) -> Arrangement:
    """A division by its shares: a configuration, if its stages are whole blocks in a row."""
    plan = OwnPlan(tuple(places), tuple(tuple(row) for row in shares))
    stages = sorted(zip(parts_of(plan), plan.places, strict=True))
    numbers = [block for parts, _ in stages for block, _ in parts]
    whole = all(share == 1 for parts, _ in stages for _, share in parts)
    if not whole or numbers != list(range(plan.blocks)):
        return plan
    return Configuration(
        tuple(1 + parts[-1][0] for parts, _ in stages), tuple(place for _, place in stages)
    )
