"""Looks at the built site as visitors do: links, and each page in a browser.

    python -m docs.site.check build/site [PAGE ...]

In a browser, from the disk: light and dark with axe-core, on a phone's width without scrolling
sideways, without errors in the console, and without asking anybody for anything.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.site.links import broken_links

CHROMIUM = "/usr/bin/chromium"
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files")
DESK = {"viewport": {"width": 1280, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
# Rows beyond so many are alike to axe-core, which takes seconds for each thousand of cells.
_ROWS = 25
_SHORTEN = f"""document.querySelectorAll('table.sortable tbody').forEach(
    body => [...body.rows].slice({_ROWS}).forEach(row => row.remove()))"""


def page_faults(page: Any, url: str, phone: bool) -> Iterator[str]:
    """What is wrong with a page that is opened at `url`."""
    told: list[str] = []
    page.on("console", lambda said: told.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: told.append(str(error)))
    page.on(
        "request",
        lambda asked: (
            None
            if asked.url.startswith(("file:", "data:"))
            else told.append(f"asks for {asked.url}")
        ),
    )
    page.goto(url)
    width = page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
    if phone and width > 0:
        yield f"is {width} pixels too wide for a phone"
    page.evaluate(_SHORTEN)
    yield from accessibility_faults(page)
    yield from told


def accessibility_faults(page: Any) -> Iterator[str]:
    """All that axe-core finds, whatever its weight."""
    from axe_playwright_python.sync_playwright import Axe

    response = Axe().run(page).response
    if len(response["passes"]) <= 10:
        yield "axe-core did not run"
    for each in response["violations"]:
        for node in each["nodes"]:
            yield f"axe {each['id']} ({each['impact']}): {node['html'][:160]}"


def site_faults(site: Path, names: list[str]) -> Iterator[str]:
    """What is wrong with the pages of a site in a browser; all pages if none is named."""
    from playwright.sync_api import sync_playwright

    pages = [site / name for name in names] or own_pages(site)
    looks = (("light", "light", DESK), ("dark", "dark", DESK), ("phone", "light", PHONE))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        for path in pages:
            for look, scheme, options in looks:
                context = browser.new_context(color_scheme=scheme, **options)
                url = path.resolve().as_uri()
                for fault in page_faults(context.new_page(), url, options is PHONE):
                    yield f"{path.relative_to(site)} ({look}): {fault}"
                context.close()
        browser.close()


def own_pages(site: Path) -> list[Path]:
    """The pages that Sphinx made: reports that tutorials wrote have tests of their own."""
    return [
        path for path in sorted(site.rglob("*.html")) if 'class="sidebar-tree"' in path.read_text()
    ]


def main(arguments: list[str]) -> int:
    """Check, say what is wrong, and return the exit status."""
    site = Path(arguments[0])
    faults = broken_links(site)
    print(*faults, sep="\n", end="\n" if faults else "")
    if Path(CHROMIUM).exists():
        for fault in site_faults(site, arguments[1:]):
            print(fault, flush=True)
            faults.append(fault)
    else:
        print("no browser to look at the site with: apt-get install chromium", file=sys.stderr)
    print(*faults, sep="\n") if faults else print(
        f"{site}: no fault in {len(own_pages(site))} pages"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
