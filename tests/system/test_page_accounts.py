"""The page of a service with keys, budgets and a chat model, in a real browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("sqlalchemy", reason="the extra 'ledger' is not installed")
pytest.importorskip("playwright.sync_api", reason="the extra 'system' is not installed")
pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra 'system' is not installed")

from chat_stand_in import StandIn, chat_model
from page_support import CHROMIUM, Opened, chromium, image
from server_support import SMALL, RunningService, running

from sfumato.ledger import Ledger
from sfumato.server.keys import new_key

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian's package is chromium)")
CONFIG = (
    SMALL
    + """
[ledger]
url = "budgets.db"

[noise]
key_file = "noise.key"

[[keys]]
id = "reader"
hash = "{hash}"
scopes = ["privatize", "explain", "guarantee", "budget", "chat"]
subject = "customer 17"

[chat]
upstream = "{upstream}"
mechanism = "everyday"
models = ["small"]
restore = "on-request"
"""
)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[RunningService, str, StandIn]]:
    made = new_key("reader")
    (tmp_path / "noise.key").write_bytes(os.urandom(32))
    with Ledger.open(tmp_path / "budgets.db") as ledger:
        ledger.create("customer 17", kind="metric", limit=1000)
    with chat_model() as model:
        config = CONFIG.replace("{hash}", made.hash).replace("{upstream}", model.url)
        (tmp_path / "sfumato.toml").write_text(config)
        with running(tmp_path / "sfumato.toml") as service:
            yield service, made.key, model


def test_keys_budgets_and_the_chat(served: tuple[RunningService, str, StandIn]) -> None:
    """One service and one page for all of it, as each takes seconds to start."""
    service, key, model = served
    with chromium() as browser:
        opened = Opened(browser, service, loaded=False, viewport={"width": 1200, "height": 950}, color_scheme="light")
        _a_key_is_asked_for(opened, key)
        _a_release_says_its_price_and_is_charged(opened)
        _a_comparison_is_charged_only_where_that_is_asked_for(opened)
        _the_budget_is_shown(opened)
        _words_are_put_back_into_an_answer(opened, model)
        assert [url for url in opened.asked if not url.startswith(opened.origin)] == []
        assert opened.complaints == []
        opened.context.close()


def _a_key_is_asked_for(opened: Opened, key: str) -> None:
    page: Any = opened.page
    page.wait_for_selector("#status.wrong")
    assert "asks for an API key" in page.inner_text("#status")
    assert opened.violations() == []
    opened.complaints.clear()  # the browser notes the status 401 on its console
    page.fill("#key", key)
    page.keyboard.press("Tab")
    opened.until("document.querySelector('#mechanism').options.length > 0")
    assert page.inner_text("#status") == ""


def _a_release_says_its_price_and_is_charged(opened: Opened) -> None:
    page = opened.page
    page.fill("#text", "good food")
    opened.until("document.querySelector('#draw').textContent.startsWith('Release for ')")
    assert page.is_disabled("#copy")  # nothing is drawn, and nothing spent, before it is asked for
    price = float(opened.figure("Price of a release"))
    page.click("#draw")
    opened.until("document.querySelector('#status').textContent.startsWith('Charged ')")
    assert float(page.inner_text("#status").split()[1].rstrip(".")) == pytest.approx(price)


def _a_comparison_is_charged_only_where_that_is_asked_for(opened: Opened) -> None:
    page = opened.page
    page.click("#tab-compare")
    page.click("#compare")
    page.wait_for_selector("#compared tbody tr >> nth=4")
    assert page.inner_text("#left-out") == "good food"
    assert page.inner_text("#status") == ""
    page.check("#draw-both")
    page.click("#compare")
    opened.until("/^Charged .+ and .+\\.$/.test(document.querySelector('#status').textContent)")


def _the_budget_is_shown(opened: Opened) -> None:
    page = opened.page
    page.click("#tab-budget")  # the subject is the key's own
    page.wait_for_selector("#budget-figures div")
    assert opened.figure("Charges", "#budget-figures") == "3"
    assert 0 < float(opened.figure("Spent", "#budget-figures")) < 1000
    assert opened.violations() == []
    image(opened, "page-budget", clip={"x": 0, "y": 0, "width": 1200, "height": 480})


def _words_are_put_back_into_an_answer(opened: Opened, model: StandIn) -> None:
    page = opened.page
    model.go_on.set()
    page.click("#tab-chat")
    page.fill("#message", "zanzibarian")
    page.click("#send")
    opened.until("document.querySelector('#answer').textContent.length > 0")
    opened.until("document.querySelector('#chat-promise').textContent.includes('1 word drawn by')")
    assert "zanzibarian" not in page.inner_text("#answer")
    page.check("#restore")
    page.click("#send")
    opened.until("document.querySelector('#answer').textContent === 'zanzibarian'")
    page.fill("#message", "Dear doctor, my heart was weak on Monday.")
    page.click("#send")
    opened.until("document.querySelector('#chat-promise').textContent.includes('8 words drawn by')")
    image(opened, "page-chat", clip={"x": 0, "y": 0, "width": 1200, "height": 640})
    assert all("zanzibarian" not in message["content"] for asked in model.seen for message in asked["messages"])
    assert opened.violations() == []
