"""Lay out what Sphinx makes the site of: the pages of docs/ as they are, and those that are made.

    python -m docs.site.assemble build/site_source

The tree is that of the repository, so that links between pages hold without being written anew:
docs/, tutorials/, the pages at the top. Made are the tutorials (`docs.site.tutorial_pages`), the
tables of results (`docs.site.results_pages`), and the reference of the command line
(`docs.site.cli_page`), of HTTP (`docs.site.http_page`) and of Python (`docs.site.api_pages`).
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.results_page import write_pages
from docs.site.api_pages import write_api
from docs.site.cli_page import cli_page
from docs.site.http_page import http_page
from docs.site.results_pages import write_results
from docs.site.tutorial_pages import read_tutorial, tutorial_page
from docs.site.tutorial_runs import recorded_run

ROOT = Path(__file__).resolve().parents[2]
RUNS = ROOT / "build" / "site_runs"
TOP_PAGES = (
    "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CODE_OF_CONDUCT.md",
)  # fmt: skip
TOP_FILES = ("LICENSE", "CITATION.cff")
_API = (
    "The names that users may rely on (`tests/data/public_api.txt` has them with their signatures, "
    "and a test compares), from docstrings. `import tvm_hetero as th` has those of the first page."
)
_METHODS = "Why a method is as it is, its derivation and what was measured. Files name their page."
_FILE_LINK = re.compile(r"\[[\w./-]+\.md\]\(([\w./-]+\.md(?:#[\w-]+)?)\)")
_RESULT_LINK = re.compile(r"\]\(((?:\.\./)*)benchmarks/results/([\w/]+)\.json\)")


def assemble(target: Path) -> None:
    """Write the source of the site to an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    copy_pages(target)
    write_tutorials(target / "tutorials")
    (target / "results").mkdir()
    write_pages(target / "results")
    write_results(ROOT / "benchmarks" / "results", target / "results")
    (target / "reference").mkdir()
    (target / "reference" / "cli.md").write_text(cli_page(), encoding="utf-8")
    (target / "reference" / "http.md").write_text(http_page(), encoding="utf-8")
    packages = write_api(target / "reference")
    write_index(target / "reference" / "api.md", "Python API", _API, packages)
    derivations = sorted(path.stem for path in (target / "docs" / "method").glob("*.md"))
    write_index(target / "docs" / "method" / "index.md", "Methods", _METHODS, derivations)
    (target / "index.md").write_text(start_page(), encoding="utf-8")


def copy_pages(target: Path) -> None:
    """The pages that are written, where the repository has them."""
    top = [ROOT / name for name in TOP_PAGES]
    for page in (*top, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"):
        copied = target / page.relative_to(ROOT)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(link_pages(page.read_text(encoding="utf-8")), encoding="utf-8")
    shutil.copytree(ROOT / "docs" / "pictures", target / "docs" / "pictures")
    copy_examples(target / "examples")
    for name in TOP_FILES:
        shutil.copy(ROOT / name, target / name)


def copy_examples(folder: Path) -> None:
    """The programs to start from, whose pages link to their files."""
    made = shutil.ignore_patterns("__pycache__", "*.hetero", "build")
    shutil.copytree(ROOT / "examples", folder, ignore=made)
    pages = sorted(folder.glob("*/README.md"))
    names = [page.relative_to(folder).with_suffix("").as_posix() for page in pages]
    toc = "\n".join(["```{toctree}", ":hidden:", "", *names, "```"])
    index = folder / "README.md"
    index.write_text(f"{index.read_text(encoding='utf-8')}\n{toc}\n", encoding="utf-8")


def write_index(path: Path, title: str, text: str, names: Sequence[str]) -> None:
    """A page that leads to those beside it."""
    toc = "\n".join(["```{toctree}", ":maxdepth: 1", "", *names, "```"])
    path.write_text(f"# {title}\n\n{text}\n\n{toc}\n", encoding="utf-8")


def link_pages(text: str) -> str:
    """A page whose links to files of results lead to the pages of these, and whose links that are
    named after a file have the title of its page."""
    return _FILE_LINK.sub(r"[](\1)", _RESULT_LINK.sub(r"](\1results/\2.md)", text))


def write_tutorials(folder: Path) -> None:
    """A page for each script; scripts that have changed are run."""
    folder.mkdir()
    for script in sorted((ROOT / "tutorials").glob("*.py")):
        tutorial = read_tutorial(script)
        page = tutorial_page(tutorial, recorded_run(script, RUNS, folder))
        (folder / f"{script.stem}.md").write_text(page, encoding="utf-8")


def start_page() -> str:
    """The start page, with the table of what was measured as README.md has it."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (table,) = re.findall(r"^\| what was measured \|.*?\n\n", readme, re.S | re.M)
    template = (Path(__file__).parent / "index.md.in").read_text(encoding="utf-8")
    return template.replace("@MEASURED@", table.strip())


if __name__ == "__main__":
    assemble(Path(sys.argv[1]))
