"""Debian's chromium, for tests of pages; skipped where it or playwright is not there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.serve.page.browser_page import CHROMIUM

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
    api = pytest.importorskip("playwright.sync_api", reason="make peers installs it")
    with api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        yield launched
        launched.close()
