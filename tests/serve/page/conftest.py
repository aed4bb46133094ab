"""Debian's chromium, and pages in it that note all that went wrong in them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.serve.page.browser_page import CHROMIUM, BrowserPage
from tests.serve.page.live_server import LiveServer

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One process for a file's pages; each has a profile of its own.

    While it is there, this thread has an event loop that runs: no other file's tests may meet it.
    """
    if shutil.which(CHROMIUM) is None:
        pytest.skip("chromium is not there: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., BrowserPage]]:
    """Open a URL as a new visitor; options are those of playwright's ``new_context``."""
    with ExitStack() as stack:

        def open_it(url: str, **options: Any) -> BrowserPage:
            page = BrowserPage(browser, url, options)
            stack.callback(page.close)
            return page

        yield open_it


@pytest.fixture(scope="module")
def live(served_models: Path) -> Iterator[LiveServer]:
    """All three models, with objectives for two of them."""
    slo = {"branchy": 10.0, "dense": 10.0}
    with LiveServer(served_models, ("branchy", "dense", "words"), slo=slo) as server:
        yield server
