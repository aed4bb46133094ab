"""What the site is made of: drawings as drawn, every page in the contents, tables that sort."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.site import assemble, check, drawings
from docs.site.results_pages import html_table
from tests.browser import browser  # noqa: F401  (a fixture)

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "docs" / "site"


@pytest.mark.parametrize("name", drawings.DRAWINGS)
def test_drawings_are_as_they_are_drawn(name):
    kept = drawings.PICTURES / f"concept-{name}.svg"
    assert kept.read_text() == drawings.DRAWINGS[name](), "python -m docs.site.drawings"
    assert f"pictures/concept-{name}.svg" in (ROOT / "docs" / "concepts.md").read_text()


def test_every_page_is_in_the_contents():
    contents = (SITE / "index.md.in").read_text(encoding="utf-8")
    listed = set(re.findall(r"^(?:.+ <)?((?:docs|tutorials)/[^\s>]+)>?$", contents, re.M))
    pages = {
        path.relative_to(ROOT).with_suffix("").as_posix()
        for path in (*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "howto").glob("*.md"),
                     *(ROOT / "tutorials").glob("*.py"))
    }  # fmt: skip
    assert listed - {"docs/method/index"} == pages


def test_the_start_page_has_the_measured_table_of_the_readme():
    page = assemble.start_page()
    rows = re.findall(r"^\| (.+) \| [\d.]", (ROOT / "README.md").read_text(), re.M)
    assert rows and all(f"| {row} |" in page for row in rows)
    assert "@" not in page


def test_files_of_results_are_linked_as_pages():
    text = "[a](../benchmarks/results/x_y.json), [b](../results.json)"
    assert assemble.link_pages(text) == "[a](../results/x_y.md), [b](../results.json)"


def test_links_that_are_named_after_a_file_get_its_title():
    text = "[teams.md](teams.md), [teams](teams.md), [docs/x.md](docs/x.md#y) and `[a.md](a.md)`"
    assert assemble.link_pages(text).startswith("[](teams.md), [teams](teams.md), [](docs/x.md#y)")


def test_a_table_sorts_by_its_headings(browser, tmp_path):  # noqa: F811
    rows = [["b", 10, 0.5], ["a", 9, None], ["c", 100, 0.25]]
    script = (SITE / "static" / "sort_tables.js").read_text()
    (tmp_path / "t.html").write_text(
        f"<!doctype html><script>{script}</script>{html_table(['name', 'n', 'x'], rows)}"
    )
    page = browser.new_page()
    page.goto((tmp_path / "t.html").as_uri())

    def press(heading: str) -> str:
        page.get_by_role("button", name=heading, exact=True).click()
        return "".join(page.locator("tbody td:first-child").all_inner_texts())

    assert (press("name"), press("name")) == ("abc", "cba")
    assert (press("n"), press("n")) == ("abc", "cba")  # 9, 10, 100: not as texts
    assert (press("x"), press("x")) == ("cba", "bca")  # what is missing stays last
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.close()


def test_the_script_that_sorts_is_short():
    assert len((SITE / "static" / "sort_tables.js").read_text().splitlines()) < 60


def test_the_check_finds_what_is_wrong_with_a_page(browser, tmp_path):  # noqa: F811
    (tmp_path / "bad.html").write_text(
        "<!doctype html><html lang='en'><title>x</title><main><h1>x</h1><img src='data:,'>"
        "<p style='width: 1500px'>wide</p><p style='color: #ccc'>pale</p></main>"
        "<script src='http://127.0.0.1:9/x.js'></script><script>nothing()</script>"
    )
    page = browser.new_page()
    told = check.listen(page)
    seen = list(check.page_faults(page, (tmp_path / "bad.html").as_uri()))
    page.close()
    assert any(fault.startswith("axe image-alt (critical)") for fault in seen)
    assert any(fault.startswith("dark: axe color-contrast") for fault in seen)
    assert "is 228 pixels too wide for a desk" in seen
    assert any("pixels too wide for a phone" in fault for fault in seen)
    assert "asks for http://127.0.0.1:9/x.js" in told
    assert any("nothing is not defined" in fault for fault in told)
