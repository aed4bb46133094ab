"""Accordion replayed beside the paper's baselines and what servers do, on recorded networks.

    python -m benchmarks.accordion             writes results/accordion.json (minutes)
    python -m benchmarks.accordion --small     seconds, no file (the tests run it)
    python -m benchmarks.accordion --output FILE
    python -m benchmarks.accordion --trace FILE --places 8
                                               one stream, a line `seconds model items high|low
                                               slo_seconds|-` for each arrival

Simulated from recorded seconds of blocks (`accordion_table/profiles.py`), as the paper simulates
from measured ones. Every policy sees the same queries. The tables of docs/accordion.md are made of
the results (`python -m benchmarks.quotes --write`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.accordion_table.streams import INTENSITIES, MEASURES, Row, cell_rows, stream_rows
from benchmarks.accordion_table.without_deadlines import free_rows
from benchmarks.documents import rounded
from benchmarks.result_rows import write_rows
from tvm_hetero.serve.scheduling.arrivals import SLO_LEVELS, parse_trace

RESULTS = Path(__file__).with_name("results") / "accordion.json"
_PLACES = (2, 4, 8, 16)
# Bursts, and times that are off, are replayed on this pool alone.
_ONE_POOL = 4
# Queries that nobody refuses wait in queues that grow: on more places their replay takes an hour.
_MOST_FREE = 8
_SEEDS = (1, 2)
_COUNT = 600


def main(arguments: Sequence[str] | None = None) -> list[Row]:
    """Replay all, print what is done, and write the rows; returns them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--small", action="store_true", help="4 places, short streams, no file")
    parser.add_argument("--output", type=Path, help=f"JSON file (default: {RESULTS})")
    parser.add_argument("--trace", type=Path, help="arrivals to replay instead, no file")
    parser.add_argument("--places", type=int, default=_ONE_POOL, help="of a trace")
    given = parser.parse_args(arguments)
    if given.trace is not None:
        queries = parse_trace(given.trace.read_text(encoding="utf-8").splitlines())
        found = list(stream_rows(queries, given.places))
        print(*map(_line, found), sep="\n")
        return found
    rows = []
    for row in _rows((_ONE_POOL,), (1,), 60) if given.small else _rows(_PLACES, _SEEDS, _COUNT):
        rows.append(row)
        print(_line(row), flush=True)
    output = given.output or (None if given.small else RESULTS)
    if output is not None:
        head = {
            "what": "python -m benchmarks.accordion", "queries": _COUNT, "seeds": len(_SEEDS),
            "slo": SLO_LEVELS, "intensities": INTENSITIES,
        }  # fmt: skip
        write_rows(output, head, map(rounded, rows))
    return rows


def _rows(places: Sequence[int], seeds: Sequence[int], count: int) -> Iterator[Row]:
    for measure in MEASURES:
        for number in places if measure == "poisson" else (_ONE_POOL,):
            for intensity in INTENSITIES:
                for level in SLO_LEVELS:
                    yield from cell_rows(measure, number, intensity, level, count, seeds)
    yield from free_rows([number for number in places if number <= _MOST_FREE], count, seeds)


def _line(row: Row) -> str:
    return "  ".join(f"{key} {value}" for key, value in rounded(row).items())


if __name__ == "__main__":
    main()
