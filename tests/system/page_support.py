"""The page in a real browser, for tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright
from server_support import RunningService

CHROMIUM = shutil.which("chromium")
IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"
OPTIONS = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Run a browser for as long as the block."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


class Opened:
    """The page, with everything it asked for and complained about."""

    def __init__(self, browser: Any, service: RunningService, *, loaded: bool = True, **context: Any) -> None:
        self.context = browser.new_context(**context)
        self.page = self.context.new_page()
        self.page.set_default_timeout(20_000)
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: message.type == "error" and self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.origin = service.url
        self.page.goto(service.url + "/")
        if loaded:
            self.until("document.querySelector('#mechanism').options.length > 0")

    def until(self, condition: str, argument: Any = None) -> None:
        """Wait for a condition; the browser's own way to wait would need what the page's content policy forbids."""
        deadline = time.monotonic() + 20
        while not self.page.evaluate(condition, argument):
            assert time.monotonic() < deadline, condition
            self.page.wait_for_timeout(30)

    def type(self, text: str) -> None:
        self.page.fill("#text", text)
        self.until("n => document.querySelectorAll('#out .word').length === n", len(text.split()))
        self.until("!document.querySelector('#copy').disabled")

    def figure(self, name: str, panel: str = "#figures") -> str:
        named = self.page.locator(f"{panel} div", has=self.page.locator("dt", has_text=name))
        return str(named.locator("dd").first.inner_text())

    def violations(self) -> list[str]:
        results = Axe().run(self.page, options=OPTIONS)
        return [f"{one['id']}: {one['help']}" for one in results.response["violations"]]


def image(opened: Opened, name: str, **options: Any) -> None:
    """Write a screenshot of the documentation, where that is asked for; take it in any case."""
    opened.page.evaluate("document.activeElement.matches('textarea') && document.activeElement.blur()")
    taken = opened.page.screenshot(**options)
    assert taken.startswith(b"\x89PNG")
    if os.environ.get("SFUMATO_WRITE_IMAGES"):
        (IMAGES / f"{name}.png").write_bytes(taken)
