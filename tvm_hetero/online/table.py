"""Recorded tables: what each block of a network takes, alone and under each disturbance.

A recording (JSON, ``tvm-hetero/recording/1``, docs/formats.md) has, for every *scenario* (what
happens on the cores meanwhile), kind of place and width, the seconds of every block. The scenario
``alone`` is the quiet one and always there. The simulator replays a recording for as many places
as one likes; `Recording.seconds_on` is what it asks.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_hetero.errors import FormatError, UsageError
from tvm_hetero.online.configuration import Place
from tvm_hetero.util.documents import check_format, read_document, write_atomic
from tvm_hetero.util.fields import Fields
from tvm_hetero.util.nearest import nearest
from tvm_hetero.util.quote import quote
from tvm_hetero.util.units import parse_number

FORMAT = "tvm-hetero/recording/1"
ALONE = "alone"
# What bounds a block, as far as its recorder can tell.
BOUNDS = ("", "compute", "memory")

# seconds[scenario][kind][width], a time for each block
Columns = Mapping[str, Mapping[str, Mapping[int, tuple[float, ...]]]]


@dataclass(frozen=True)
class RecordedBlock:
    """A block: its name, its hinted work (multiply-adds) and what bounds it (see `BOUNDS`)."""

    name: str
    weight: float
    bound: str = ""


@dataclass(frozen=True)
class Recording:
    """A recorded table.

    Attributes
    ----------
    name : of the network; source : where the times are from, for people: machine, program, or
        that they are computed.
    kinds : the widths of places of each kind.
    scenarios : `ALONE` first, then the disturbances.
    seconds : of every scenario, kind and width, a time above 0 for every block.
    noise : how a stage's time varies in quiet: ratios to its median, one request after the other.

    Raises
    ------
    FormatError
        When it is made: a combination is missing or has another number of blocks, or a time is
        not above 0 and finite.
    """

    name: str
    blocks: tuple[RecordedBlock, ...]
    kinds: Mapping[str, tuple[int, ...]]
    scenarios: tuple[str, ...]
    seconds: Columns
    source: str = ""
    noise: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        where = f"recording {quote(self.name)}"
        if not self.blocks or not self.kinds or not all(self.kinds.values()):
            raise FormatError(f"{where}: expected blocks, and kinds of places with their widths")
        if not self.scenarios or self.scenarios[0] != ALONE:
            raise FormatError(f"{where}: scenarios: expected {ALONE!r} as the first one")
        for names in (self.scenarios, [block.name for block in self.blocks]):
            if len(set(names)) < len(names):
                raise FormatError(f"{where}: a name of a block or scenario is given twice")
        for scenario in self.scenarios:
            for kind, widths in self.kinds.items():
                for width in widths:
                    _check_column(self, scenario, kind, width, where)
        if not all(0 < ratio < math.inf for ratio in self.noise):
            raise FormatError(f"{where}: noise: expected ratios above 0")

    @property
    def weights(self) -> tuple[float, ...]:
        """The hinted work of each block."""
        return tuple(block.weight for block in self.blocks)

    @property
    def bounds(self) -> tuple[str, ...]:
        """What bounds each block, where that is known of all; else ()."""
        found = tuple(block.bound for block in self.blocks)
        return found if all(found) else ()

    def column(self, scenario: str, place: Place) -> tuple[float, ...]:
        """Seconds of every block on a place of that kind and width.

        Raises
        ------
        UsageError
            If the recording has no such scenario, kind or width.
        """
        if scenario not in self.scenarios:
            raise UsageError(
                f"no scenario {scenario!r} was recorded of {self.name!r}"
                f"{nearest(scenario, self.scenarios)}"
            )
        if place.width not in self.kinds.get(place.kind, ()):
            known = "; ".join(f"{kind}: {list(widths)}" for kind, widths in self.kinds.items())
            raise UsageError(
                f"nothing was recorded of {self.name!r} on {place.width} cores of kind "
                f"{place.kind!r}; recorded are {known}"
            )
        return self.seconds[scenario][place.kind][place.width]

    def seconds_on(
        self, places: Sequence[Place], disturbed: Mapping[int, str] | None = None
    ) -> tuple[tuple[float, ...], ...]:
        """seconds[block][place], with the scenario of each place that is disturbed."""
        given = disturbed or {}
        columns = [self.column(given.get(i, ALONE), place) for i, place in enumerate(places)]
        return tuple(zip(*columns, strict=True))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Recording:
        """Read a recording.

        Raises
        ------
        FormatError
            If the file cannot be read, or says something unknown or of the wrong kind.
        """
        return recording_from_dict(read_document(path), str(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the recording as JSON, a block or column a line, whole or not at all."""
        write_atomic(path, recording_text(self))


def _check_column(recording: Recording, scenario: str, kind: str, width: int, where: str) -> None:
    column = recording.seconds.get(scenario, {}).get(kind, {}).get(width)
    here = f"{where}: seconds of scenario {quote(scenario)}, kind {quote(kind)}, width {width}"
    if column is None:
        raise FormatError(f"{here}: missing; every scenario has all kinds and widths")
    if len(column) != len(recording.blocks):
        raise FormatError(
            f"{here}: expected a time for each of {len(recording.blocks)} blocks, got {len(column)}"
        )
    if not all(0 < time < math.inf for time in column):
        raise FormatError(f"{here}: expected times above 0")


def recording_text(recording: Recording) -> str:
    """The document of a recording, as JSON: a block or column of seconds a line."""
    head: dict[str, Any] = {
        "format": FORMAT,
        "name": recording.name,
        "source": recording.source,
        "kinds": {kind: list(widths) for kind, widths in recording.kinds.items()},
        "scenarios": list(recording.scenarios),
    }
    lines = [f'"{key}": {json.dumps(value)}' for key, value in head.items()]
    rows = ",\n  ".join(json.dumps(_block_row(block)) for block in recording.blocks)
    lines.append(f'"blocks": [\n  {rows}]')
    lines.append(f'"seconds": {_nested_text(recording.seconds, recording)}')
    if recording.noise:
        lines.append(f'"noise": {json.dumps(recording.noise)}')
    return "{" + ",\n ".join(lines) + "}\n"


def _block_row(block: RecordedBlock) -> dict[str, Any]:
    bound = {"bound": block.bound} if block.bound else {}
    return {"name": block.name, "weight": block.weight} | bound


def _nested_text(columns: Columns, recording: Recording) -> str:
    parts = []
    for scenario in recording.scenarios:
        rows = {
            kind: {str(width): columns[scenario][kind][width] for width in widths}
            for kind, widths in recording.kinds.items()
        }
        lines = ",\n   ".join(
            f"{json.dumps(kind)}: " + json.dumps(row).replace("], ", "],\n    ")
            for kind, row in rows.items()
        )
        parts.append(f"{json.dumps(scenario)}: {{{lines}}}")
    return "{\n  " + ",\n  ".join(parts) + "}"


def recording_from_dict(data: object, where: str = "recording") -> Recording:
    """Make a recording of a parsed document."""
    check_format(data, FORMAT, where)
    row = Fields(
        data,
        where,
        ["format", "name", "kinds", "scenarios", "blocks", "seconds"],
        ["source", "noise"],
    )
    kinds = row.fields("kinds", optional=None)
    widths = {kind: kinds.integers(kind, least=1, distinct=True) for kind in kinds.data}
    scenarios = row.names("scenarios")
    return Recording(
        name=row.name("name"),
        blocks=row.rows("blocks", _block, "block"),
        kinds=widths,
        scenarios=scenarios,
        seconds=_columns(row.fields("seconds", scenarios), widths),
        source=row.text("source", ""),
        noise=_times(row, "noise") if "noise" in row else (),
    )


def _block(data: object, where: str) -> RecordedBlock:
    row = Fields(data, where, ["name", "weight"], ["bound"])
    weight = row.quantity("weight", parse_number)
    return RecordedBlock(row.name("name"), weight, row.choice("bound", BOUNDS, ""))


def _columns(seconds: Fields, kinds: Mapping[str, tuple[int, ...]]) -> Columns:
    found: dict[str, dict[str, dict[int, tuple[float, ...]]]] = {}
    for scenario in seconds.data:
        by_kind = seconds.fields(scenario, kinds)
        for kind, widths in kinds.items():
            by_width = by_kind.fields(kind, [str(width) for width in widths])
            columns = {width: _times(by_width, str(width)) for width in widths}
            found.setdefault(scenario, {})[kind] = columns
    return found


def _times(row: Fields, key: str) -> tuple[float, ...]:
    values: list[Any] = list(row.items(key))
    return tuple(parse_number(value, f"{row.at(key)}[{i}]") for i, value in enumerate(values))
