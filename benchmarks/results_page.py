"""Pages with every row of the results, below build/, which is not committed.

    python -m benchmarks.results_page       # or `make results`: build/results/*.md

What docs/ and README.md say of the results is a few tables: `benchmarks.quotes`.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import performance
from benchmarks.scheduling import page

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGES = ROOT / "benchmarks" / "results", ROOT / "build" / "results"


def write_pages(folder: Path = PAGES) -> list[Path]:
    """Write performance.md and scheduling.md of all that is committed, and say where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    performance.write_page(RESULTS, folder)
    page.write_page(RESULTS, folder)
    written = sorted(folder.glob("*.md"))
    print(*(f"written: {path}" for path in written), sep="\n")
    return written


if __name__ == "__main__":
    write_pages()
