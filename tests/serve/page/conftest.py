"""Pages in a browser that note all that went wrong in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.browser import browser as browser
from tests.serve.page.browser_page import BrowserPage
from tests.serve.page.live_server import LiveServer


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
