"""Puts the tables of the results where README.md and docs/ quote them.

    python -m benchmarks.quotes             # prints them
    python -m benchmarks.quotes --write     # puts them there, and the scheduler's pictures

The pages are written by hand; a table takes the place of the one with the same head. The tests see
to it that the pages hold what the results do: after a benchmark has been run anew, ``--write`` is
what makes that so again. Pages with all rows: `benchmarks.results_page`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import performance
from benchmarks.quoted import (
    accordion,
    chiplets,
    choosing,
    decoder_prices,
    diviml,
    document_readers,
    int8,
    live,
    online,
    pim,
    precision,
    precision_errors,
    readme,
    scheduling,
    serving,
    teams,
)
from benchmarks.quoted import performance as performance_tables
from benchmarks.result_rows import read_rows
from benchmarks.scheduling import page
from tvm_hetero.util.documents import write_atomic

ROOT = Path(__file__).resolve().parent.parent
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"


# Results that are quoted as they are.
_DOCUMENTS = (
    "document_readers", "diviml", "online", "teams", "decode_teams",
    "adapted", "switch", "watching", "soak_switch", "accordion",
    "accordion_live", "serve_overhead",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or put them where they are quoted."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given not in ([], ["--write"]):
        raise SystemExit(f"benchmarks.quotes takes nothing or --write, not {' '.join(given)!r}")
    for path, tables in quotes().items():
        if given:
            write_atomic(path, with_tables(path.read_text(encoding="utf-8"), tables))
        else:
            print(f"{path.relative_to(ROOT)}\n", *tables, "", sep="\n\n")
    if given:
        page.write_pictures(page.read_results(RESULTS), DOCS / "pictures")


def quotes() -> dict[Path, list[str]]:
    """The tables of each page that quotes results."""
    found, scheduled = performance.read_results(RESULTS), page.read_results(RESULTS)
    (
        read,
        paper,
        replayed,
        scale,
        decode,
        adapted,
        switched,
        watched,
        soaked,
        shared,
        live_shared,
        costs,
    ) = (json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in _DOCUMENTS)
    return {
        ROOT / "README.md": readme.tables(found, scheduled),
        DOCS / "performance.md": performance_tables.tables(found),
        DOCS / "scheduling.md": scheduling.tables(scheduled),
        DOCS / "choosing-compared.md": [
            *choosing.choice_tables(read_rows(RESULTS / "choose.json")),
            decoder_prices.price_table(read_rows(RESULTS / "decoder_prices.json")),
            decoder_prices.helix_table(read_rows(RESULTS / "helix.json")),
        ],
        DOCS / "sharing.md": [choosing.day_table(read_rows(RESULTS / "share_machines.json"))],
        DOCS / "pim.md": [pim.pim_table(read_rows(RESULTS / "pim.json"))],
        DOCS / "chiplets.md": chiplets.tables(read_rows(RESULTS / "chiplets.json")),
        DOCS / "precision.md": [
            precision.precision_table(read_rows(RESULTS / "precision.json")),
            precision.amx_table(read_rows(RESULTS / "sapphire_rapids" / "precision.json")),
            precision_errors.precision_errors_table(read_rows(RESULTS / "precision_errors.json")),
            int8.int8_table(read_rows(RESULTS / "int8.json")),
        ],
        DOCS / "online.md": online.tables(replayed),
        DOCS / "live.md": [
            *live.tables(adapted, switched, watched, soaked),
            serving.adapt_table(read_rows(RESULTS / "serve_adapt.json")),
        ],
        DOCS / "accordion.md": [*accordion.tables(shared), serving.live_table(live_shared)],
        DOCS / "serving.md": [serving.cost_table(costs)],
        DOCS / "teams.md": teams.tables(scale, decode, read_rows(RESULTS / "disturbed_team.json")),
        DOCS / "diviml.md": diviml.tables(paper, scheduled),
        DOCS / "method" / "documents.md": document_readers.tables(read),
    }


def with_tables(text: str, tables: Sequence[str]) -> str:
    """The text with each table in the place of the one that has the same head."""
    blocks = text.split("\n\n")
    for table in tables:
        head = table.partition("\n")[0]
        places = [i for i, block in enumerate(blocks) if block.partition("\n")[0] == head]
        if len(places) != 1:
            raise ValueError(f"expected one table {head!r} on the page, found {len(places)}")
        blocks[places[0]] = table
    # A table at its end takes the newline of a page with it.
    blocks[-1] = blocks[-1].rstrip("\n") + "\n"
    return "\n\n".join(blocks)


if __name__ == "__main__":
    main()
