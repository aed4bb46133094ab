"""Online policies replayed: Pipe-search, Shisha, ODIN and LLS after the papers, and `resolve`.

    python -m benchmarks.online             writes results/online.json (minutes)
    python -m benchmarks.online --small     seconds, no file (the tests run it)
    python -m benchmarks.online --output FILE
    python -m benchmarks.online --draws     the grid's other draws alone: the file's other rows stay

Everything is simulated: from tables that are computed from layer shapes (`pipelines/tables.py`),
and where the measure begins with ``recorded-`` from what was recorded here (`benchmarks.record`).
They say which policy finds what, not how fast a machine is. The tables of docs/online.md are made
of the results (`python -m benchmarks.quotes --write`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.documents import rounded
from benchmarks.pipelines.disturbing import (
    GRID,
    computed,
    drawn_rows,
    grid_rows,
    lasting_rows,
    recorded,
    scaling_rows,
)
from benchmarks.pipelines.searching import pipe_search_row, shisha_row
from benchmarks.result_rows import read_rows, write_rows

RESULTS = Path(__file__).with_name("results") / "online.json"
Row = dict[str, Any]
_MOLDABLE = ("light-bvlc_alexnet", "synthnet", "vgg16")
_UNLIKE = (
    ("resnet50", 2, 2), ("resnet50", 4, 4), ("yolov3", 2, 2), ("yolov3", 4, 4),
    ("synthnet", 4, 4), ("resnet152", 4, 4),
)  # fmt: skip
_REQUESTS = 4000
_PLACES = (4, 8, 16, 26, 39, 52)
_CELLS = [(period, duration) for period in GRID for duration in GRID]
_DRAWS = 6


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Simulate all, print what is done, and write the rows; returns them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="one of each, short streams, no file")
    parser.add_argument("--draws", action="store_true", help="the grid's other draws alone")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS})")
    given = parser.parse_args(arguments)
    kept = [row for row in read_rows(RESULTS) if given.draws and row["measure"] != "draws"]
    rows = []
    for row in _small_rows() if given.small else _drawn() if given.draws else _all_rows():
        rows.append(row)
        print(_line(row), flush=True)
    output = given.output or (None if given.small else RESULTS)
    if output is not None:
        tables = "computed from layer shapes; recorded"
        head = {"what": "python -m benchmarks.online", "tables": tables, "requests": _REQUESTS}
        write_rows(output, head, map(rounded, kept + rows))
    return rows


def _all_rows() -> Iterator[Row]:
    yield from map(pipe_search_row, _MOLDABLE)
    yield from (shisha_row(*case) for case in _UNLIKE)
    for network in ("vgg16", "resnet50"):
        yield from grid_rows(computed(network), 4, _REQUESTS, _CELLS)
    for network in ("vgg16", "resnet50", "yolov3"):
        yield from lasting_rows(computed(network), 4)
    yield from scaling_rows(computed("resnet152"), _PLACES, 2000)
    for network in ("vgg16", "resnet50"):
        yield from grid_rows(recorded(network), 4, _REQUESTS, _CELLS)
    for network in ("vgg16", "resnet50", "yolov3"):
        yield from lasting_rows(recorded(network), 4)
    yield from scaling_rows(recorded("resnet152"), _PLACES, 2000)
    yield from _drawn()


def _drawn() -> Iterator[Row]:
    for network in ("vgg16", "resnet50"):
        yield from drawn_rows(computed(network), 4, _REQUESTS, _CELLS, _DRAWS)


def _small_rows() -> Iterator[Row]:
    yield pipe_search_row("light-bvlc_alexnet")
    yield shisha_row("synthnet", 2, 2)
    yield from grid_rows(computed("vgg16"), 4, 300, [(100, 100)])
    yield from lasting_rows(computed("vgg16"), 3)
    yield from scaling_rows(computed("resnet50"), (4, 8), 300)
    yield from grid_rows(recorded("vgg16"), 4, 300, [(100, 100)])
    yield from lasting_rows(recorded("vgg16"), 3)
    yield from scaling_rows(recorded("resnet50"), (4, 8), 300)
    yield from drawn_rows(computed("vgg16"), 4, 300, [(100, 100)], 2)


def _line(row: Row) -> str:
    shown = {key: value for key, value in rounded(row).items() if not isinstance(value, dict)}
    return "  ".join(f"{key} {value}" for key, value in shown.items())


if __name__ == "__main__":
    main()
