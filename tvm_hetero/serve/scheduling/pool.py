"""The places of a pool and who owns them: a place has one owner or is free, never both."""

from __future__ import annotations

from collections.abc import Iterable

from tvm_hetero.errors import UsageError


class PlacePool:
    """`count` places, numbered from 0.

    A place that is taken by one owner while another has it is an error of the policy, refused.
    """

    def __init__(self, count: int) -> None:
        if count < 1:
            raise UsageError(f"a pool has at least one place, got {count}")
        self.count = count
        self._owners: list[int | None] = [None] * count
        self._free = set(range(count))

    @property
    def free(self) -> int:
        """How many places nobody owns."""
        return len(self._free)

    @property
    def owners(self) -> tuple[int | None, ...]:
        """The owner of each place."""
        return tuple(self._owners)

    def take(self, owner: int, count: int) -> tuple[int, ...]:
        """Give an owner the first `count` free places.

        Raises
        ------
        UsageError
            If fewer are free.
        """
        if not 0 <= count <= len(self._free):
            raise UsageError(f"query {owner} wants {count} places; {len(self._free)} are free")
        taken = tuple(sorted(self._free)[:count])
        for place in taken:
            self._owners[place] = owner
        self._free.difference_update(taken)
        return taken

    def give_back(self, owner: int, places: Iterable[int]) -> None:
        """Free places of an owner.

        Raises
        ------
        UsageError
            If one is not its own.
        """
        for place in places:
            if self._owners[place] != owner:
                raise UsageError(
                    f"query {owner} gives back place {place}, which {self._owners[place]} owns"
                )
            self._owners[place] = None
            self._free.add(place)

    def hand_over(self, owner: int, successor: int) -> tuple[int, ...]:
        """All places of one owner become another one's."""
        places = tuple(p for p, own in enumerate(self._owners) if own == owner)
        for place in places:
            self._owners[place] = successor
        return places
