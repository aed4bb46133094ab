"""Looks at the built site as visitors do: links, and each page in a browser.

    python -m docs.site.check build/site [PAGE ...]

In a browser, from the disk: axe-core finds nothing, also in the dark; nothing is wider than the
window on a desk or a phone; the console has no errors; nobody is asked for anything; a search finds
pages.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from docs.site.links import broken_links

CHROMIUM = "/usr/bin/chromium"
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu")
_DESK = {"width": 1280, "height": 900}
_PHONE = {"width": 390, "height": 844}
# Rows beyond so many are alike to axe-core, which takes seconds for each thousand of cells.
_ROWS = 25
_SHORTEN = f"""document.querySelectorAll('table.sortable tbody').forEach(
    body => [...body.rows].slice({_ROWS}).forEach(row => row.remove()))"""
_TOO_WIDE = "document.scrollingElement.scrollWidth - window.innerWidth"


def main(arguments: Sequence[str]) -> int:
    """Check, say what is wrong, and return the exit status."""
    site = Path(arguments[0])
    pages = [site / name for name in arguments[1:]] or own_pages(site)
    faults = broken_links(site)
    print(*faults, sep="\n", end="\n" if faults else "")
    if not Path(CHROMIUM).exists():
        print("no browser to look at the site with: apt-get install chromium", file=sys.stderr)
        return 1 if faults else 0
    for fault in seen_faults(site, pages):
        print(fault, flush=True)
        faults.append(fault)
    print(f"{site}: {len(faults)} faults in {len(pages)} pages")
    return 1 if faults else 0


def own_pages(site: Path) -> list[Path]:
    """The pages that Sphinx made: reports that tutorials wrote have tests of their own."""
    found = sorted(site.rglob("*.html"))
    return [path for path in found if 'class="sidebar-tree"' in path.read_text(encoding="utf-8")]


def seen_faults(site: Path, pages: Sequence[Path]) -> Iterator[str]:
    """What is wrong with pages in a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        page = browser.new_page()
        told = listen(page)
        for path in pages:
            told.clear()
            faults = list(page_faults(page, path.resolve().as_uri()))
            yield from (f"{path.relative_to(site)}: {fault}" for fault in (*faults, *told))
        if not found_by_search(page, site, "bound"):
            yield "search.html: nothing is found"
        browser.close()


def listen(page: Any) -> list[str]:
    """A list in which stands what goes wrong from now on: errors, and requests beyond the disk."""
    told: list[str] = []
    page.on("console", lambda said: told.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on("request", lambda asked: _note_stranger(asked.url, told))
    return told


def _note_stranger(url: str, told: list[str]) -> None:
    if not url.startswith(("file:", "data:")):
        told.append(f"asks for {url}")


def page_faults(page: Any, url: str) -> Iterator[str]:
    """What is wrong with how a page looks: in the light, in the dark, on a phone."""
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(_DESK)
    page.goto(url)
    page.evaluate(_SHORTEN)
    yield from _too_wide(page, "desk")
    yield from accessibility_faults(page)
    page.emulate_media(color_scheme="dark")
    yield from (f"dark: {fault}" for fault in accessibility_faults(page, ["color-contrast"]))
    page.set_viewport_size(_PHONE)
    yield from _too_wide(page, "phone")
    rules = ["scrollable-region-focusable"]
    yield from (f"phone: {fault}" for fault in accessibility_faults(page, rules))


def _too_wide(page: Any, window: str) -> Iterator[str]:
    if (pixels := page.evaluate(_TOO_WIDE)) > 0:
        yield f"is {pixels} pixels too wide for a {window}"


def accessibility_faults(page: Any, rules: Sequence[str] = ()) -> Iterator[str]:
    """All that axe-core finds, whatever its weight, by these rules or by all of them."""
    from axe_playwright_python.sync_playwright import Axe

    # Without `preload`: axe-core would read styles again, which a page on a disk may not.
    options: dict[str, Any] = {"preload": False, "resultTypes": ["violations"]}
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    response = Axe().run(page, options=options).response
    if not rules and len(response["passes"]) <= 10:
        yield "axe-core did not run"
    for each in response["violations"]:
        for node in each["nodes"]:
            yield f"axe {each['id']} ({each['impact']}): {' '.join(node['html'].split())[:160]}"


def found_by_search(page: Any, site: Path, word: str) -> int:
    """How many pages a search finds."""
    page.goto(f"{(site / 'search.html').resolve().as_uri()}?q={word}")
    page.wait_for_selector("#search-results li a", timeout=20_000)
    return int(page.locator("#search-results li a").count())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
