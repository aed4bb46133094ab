"""A page in a browser, and all that went wrong in it."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from tests.waiting import LIMIT

CHROMIUM = "/usr/bin/chromium"
_VIOLATIONS = "window.addEventListener('securitypolicyviolation', e => console.error('CSP: ' + e.violatedDirective))"  # noqa: E501


class BrowserPage:
    """One visitor's page.

    Attributes
    ----------
    page : playwright's.
    faults : errors of the console, exceptions, violations of the security policy.
    strangers : requests to other origins.
    """

    def __init__(self, browser: Any, url: str, options: dict[str, Any]) -> None:
        self._context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 900}, **options}
        )
        self._context.set_default_timeout(LIMIT * 1000)
        self.page = self._context.new_page()
        self.faults: list[str] = []
        self.strangers: list[str] = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        origin = urlsplit(url).netloc
        self.page.on("request", lambda request: self._see(request.url, origin))
        self.page.add_init_script(_VIOLATIONS)
        self.page.goto(url)

    def _hear(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(message.text)

    def _see(self, url: str, origin: str) -> None:
        if not url.startswith("data:") and urlsplit(url).netloc != origin:
            self.strangers.append(url)

    def until(self, condition: str) -> None:
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + LIMIT
        # Not by `wait_for_function`, which would evaluate a text inside the page: it forbids that.
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"never true: {condition}"
            self.page.wait_for_timeout(50)

    def text(self, selector: str) -> str:
        """What an element says, with plain spaces."""
        return str(self.page.inner_text(selector)).replace("\u00a0", " ")

    def accessibility_faults(self) -> list[str]:
        """What axe-core finds, whatever its weight."""
        from axe_playwright_python.sync_playwright import Axe

        response = Axe().run(self.page).response
        found = response["violations"]
        assert len(response["passes"]) > 10, "axe-core did not run"
        return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]

    def close(self) -> None:
        """End it."""
        self._context.close()
