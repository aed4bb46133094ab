"""Teams of a machine's cores: sets of 1, 2, 4 .. n cores that share what can be shared.

Teams are made of cores of one kind (all equally fast), one hardware thread of each physical core,
in the order of NUMA node, last-level cache and core. A width that fits into a cache is cut
from each cache's, one that fits into a node's from each node's, a wider one from all; what is left
over at the end makes no team. Wide teams come first, and one that would reach over the border of a
wider one is left out: so any two are nested or apart, which steady states ask for
(`tvm_hetero.platform.teams`), and the schedule that gives every operator all cores, like the one
that gives each one core, is among those that can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from tvm_hetero.errors import UsageError
from tvm_hetero.platform.host import Core
from tvm_hetero.util.quote import quote

NONE, ALL = "none", "all"
# Of a width: fewer than these.
_DIGITS = 10


def parse_teams(text: str) -> tuple[int, ...] | None:
    """Widths of teams: () for ``none``, None for ``all``, else the numbers of ``1,2,4``.

    Raises
    ------
    UsageError
        If it is none of these.
    """
    if text == NONE:
        return ()
    if text == ALL:
        return None
    parts = text.split(",")
    if not all(_is_width(part.strip()) for part in parts):
        raise UsageError(f"teams: expected none, all or widths such as 1,2,4, got {quote(text)}")
    return tuple(sorted({int(part) for part in parts}))


def _is_width(text: str) -> bool:
    """Whether a text is a number above 0, and none of thousands of digits, which has no int."""
    return text.isdecimal() and len(text) < _DIGITS and int(text) > 0


def make_teams(
    cores: Sequence[Core], widths: Sequence[int] | None, kind: Callable[[int], Hashable]
) -> list[tuple[int, ...]]:
    """The teams of some cores, wide ones first (see the head of this file).

    Parameters
    ----------
    widths : those that are wanted; None for powers of two, and all cores of a cache, node and kind.
    kind : by the number of a hardware thread: equal for cores that are equally fast.

    Raises
    ------
    UsageError
        If a width is above the number of cores of every kind.
    """
    first = {c.physical: c for c in sorted(cores, key=lambda c: c.number, reverse=True)}
    kinds: dict[Hashable, list[Core]] = {}
    for core in sorted(first.values(), key=lambda c: (c.node, c.cache, c.physical, c.number)):
        kinds.setdefault(kind(core.number), []).append(core)
    most = max(len(row) for row in kinds.values())
    if widths is not None and max(widths) > most:
        raise UsageError(
            f"cannot make teams of {max(widths)} cores; there are {most} of one kind at most"
        )
    return [team for row in kinds.values() for team in _of_kind(row, widths)]


def _of_kind(cores: Sequence[Core], widths: Sequence[int] | None) -> list[tuple[int, ...]]:
    """The teams of equally fast cores, which are in the order of what they share."""
    caches, nodes = _domains(cores, by_cache=True), _domains(cores, by_cache=False)
    wanted = set(widths) if widths is not None else _usual(len(cores), caches, nodes)
    found: list[tuple[int, ...]] = []
    for width in sorted(wanted, reverse=True):
        domains = next(
            (parts for parts in (caches, nodes) if width <= max(map(len, parts))), [list(cores)]
        )
        for domain in domains:
            numbers = [core.number for core in domain]
            for begin in range(0, len(numbers) - width + 1, width):
                team = frozenset(numbers[begin : begin + width])
                if all(team <= set(wider) or team.isdisjoint(wider) for wider in found):
                    found.append(tuple(sorted(team)))
    return found


def _usual(count: int, *parts: Sequence[Sequence[Core]]) -> set[int]:
    powers = {1 << i for i in range(count.bit_length()) if 1 << i <= count}
    return powers | {count} | {len(domain) for domains in parts for domain in domains}


def _domains(cores: Sequence[Core], *, by_cache: bool) -> list[list[Core]]:
    """The cores of each cache, or of each NUMA node."""
    found: dict[tuple[int, int], list[Core]] = {}
    for core in cores:
        found.setdefault((core.node, core.cache if by_cache else 0), []).append(core)
    return list(found.values())


def team_name(team: Sequence[int]) -> str:
    """``core3``, ``cores0-3``, or ``cores0x4`` of numbers that are not in a row."""
    first, last, width = team[0], team[-1], len(team)
    if width == 1:
        return f"core{first}"
    return f"cores{first}-{last}" if last - first == width - 1 else f"cores{first}x{width}"
