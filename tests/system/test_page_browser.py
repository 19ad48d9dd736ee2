"""The page in a real browser: Debian's Chromium, driven by Playwright.  The screenshots of the documentation are made here."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")
pytest.importorskip("uvicorn", reason="the extra 'server' is not installed")
pytest.importorskip("playwright.sync_api", reason="the extra 'system' is not installed")
pytest.importorskip("axe_playwright_python.sync_playwright", reason="the extra 'system' is not installed")

from page_support import CHROMIUM, Opened, chromium, image
from server_support import SMALL, RunningService, client, running

TEXT = "I saw the doctor on Monday because my heart was weak, and she told me to rest for two weeks."
CONFIG = (
    SMALL.replace("words = 600", "words = 2000").replace("[1, 3, 12]", "[1, 3, 4.5, 12]")
    + """
[mechanisms.groups]
algorithm = "custext"
space = "small"
epsilon = 4

[policies.everything]
[policies.numbers]
protect = ["numbers"]

[limits]
requests_per_minute = 100000
burst = 10000

[[keys]]
id = "reader"
hash = "{hash}"
scopes = ["privatize", "explain", "guarantee", "budget"]
subject = "demo"

[noise]
key_file = "noise.key"

[anonymous]
scopes = ["privatize", "explain", "guarantee"]
"""
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (Debian's package is chromium)")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    from sfumato.server.keys import new_key

    folder = tmp_path_factory.mktemp("page")
    (folder / "noise.key").write_bytes(os.urandom(32))
    config = folder / "sfumato.toml"
    config.write_text(CONFIG.replace("{hash}", new_key("reader").hash))
    with running(config) as service:
        yield service


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser: Any, service: RunningService) -> Iterator[Opened]:
    one = Opened(browser, service, viewport={"width": 1200, "height": 950}, color_scheme="light")
    yield one
    assert one.complaints == []
    assert [url for url in one.asked if not url.startswith(one.origin)] == []
    one.context.close()


def slide(opened: Opened, place: int) -> None:
    opened.page.evaluate(
        "place => { const e = document.querySelector('#epsilon'); e.value = place;"
        " e.dispatchEvent(new Event('input', {bubbles: true})); }",
        place,
    )


def test_typing_shows_how_each_word_changed(opened: Opened, service: RunningService) -> None:
    opened.type(TEXT)
    words = opened.page.locator("#out .word")
    assert words.count() == len(TEXT.split())
    labels = [words.nth(place).get_attribute("aria-label") for place in range(words.count())]
    assert all("came out the same" in label or "became" in label for label in labels), labels
    assert opened.figure("Protected words") == str(len(TEXT.split()))
    assert float(opened.figure("Certified epsilon")) <= 6.0
    assert "odds between any two protected words" in opened.page.inner_text("#promise")
    assert opened.page.inner_text("#promise-text").startswith("For a whole record")
    with client(service) as http:
        promise = http.get("/v1/guarantee").json()
    sure = 100 / (1 + math.exp(-promise["certified"] * promise["neighbour_distance"]))
    assert f"at most {sure:.1f} % sure" in opened.page.inner_text("#plain")
    assert opened.violations() == []
    slide(opened, 2)
    opened.until("document.querySelectorAll('#out .word.changed').length > 4")
    image(opened, "page-try", full_page=True)


def test_hovering_shows_candidates_with_probabilities(opened: Opened) -> None:
    opened.type("good food")
    opened.page.hover("#out .word >> nth=1")
    card = opened.page.locator("#card")
    card.wait_for(state="visible")
    assert "food" in card.inner_text()
    shares = [float(text.split()[0]) for text in card.locator("td").all_inner_texts() if "%" in text]
    assert len(shares) == 9
    assert sum(shares) == pytest.approx(100, abs=0.5)
    assert opened.violations() == []
    image(opened, "page-candidates", clip={"x": 0, "y": 0, "width": 1200, "height": 720})
    opened.page.keyboard.press("Escape")
    card.wait_for(state="hidden")


def test_sliding_changes_the_figures_at_once(opened: Opened) -> None:
    opened.type(TEXT)
    shares = []
    epsilons = ("1", "3", "4.5", "6", "12")
    for place, wanted in enumerate(epsilons):
        slide(opened, place)
        assert opened.page.inner_text("#epsilon-value") == wanted
        opened.until(
            "most => { const e = [...document.querySelectorAll('#figures div')].find(d => d.textContent.startsWith('Certified'));"
            " const found = Number(e.querySelector('dd').textContent); return found <= most && found > most / 2; }",
            float(wanted),
        )
        shares.append(float(opened.figure("P(unchanged)").split()[0]))
    assert shares == sorted(shares)
    assert shares[0] < shares[-1]


def test_policy_and_tuning_are_chosen(opened: Opened) -> None:
    opened.page.select_option("#policy", "numbers")
    opened.page.fill("#text", "room 7")
    opened.page.wait_for_selector("#out .word.kept")
    assert opened.figure("Protected words") == "1"
    opened.page.select_option("#policy", "everything")
    opened.page.select_option("#tuning", "published")
    opened.until("!document.querySelector('#out .word.kept')")
    assert opened.figure("Protected words") == "2"


def test_two_mechanisms_side_by_side(opened: Opened) -> None:
    opened.type(TEXT)
    opened.page.click("#tab-compare")
    opened.page.select_option("#left", label="everyday · best · ε 3")
    opened.page.select_option("#right", label="groups · ε 4")
    opened.page.click("#compare")
    opened.page.wait_for_selector("#compared tbody tr >> nth=4")

    def compared(name: str) -> list[str]:
        row = opened.page.locator("#compared tr", has=opened.page.locator("th", has_text=name))
        return list(row.locator("td").all_inner_texts())

    assert compared("Kind of guarantee") == ["metric", "group"]
    certified, losses = compared("Certified epsilon"), compared("Document-level loss")
    # Within the groups of its words, a text loses what each of its words loses.
    assert float(losses[1]) == pytest.approx(len(TEXT.split()) * float(certified[1]), rel=1e-2)
    assert float(losses[0]) > float(losses[1])
    assert all(50 < float(one.split()[0]) < 100 for one in compared("At most this sure"))
    for side in ("left", "right"):
        assert opened.page.locator(f"#{side}-out .word").count() == len(TEXT.split())
    assert opened.violations() == []
    image(opened, "page-compare")


def test_audit_tells_what_the_best_attacker_guesses(opened: Opened) -> None:
    opened.page.click("#tab-audit")
    opened.page.select_option("#audited", label="everyday · best · ε 12")
    opened.page.click("#audit")
    opened.page.wait_for_selector("#audit-figures div")
    assert opened.figure("Claim holds", "#audit-figures") == "yes"
    near = float(opened.figure("Bayes attack", "#audit-figures").split()[0])
    opened.page.select_option("#audited", label="everyday · published · ε 1")
    opened.page.click("#audit")
    opened.until("!document.querySelector('#attack').textContent.includes(' " + f"{near:.1f}" + " %')")
    far = float(opened.figure("Bayes attack", "#audit-figures").split()[0])
    assert far < near
    assert opened.violations() == []
    opened.page.select_option("#audited", label="everyday · best · ε 4.5")
    opened.page.click("#audit")
    opened.until("!document.querySelector('#attack').textContent.includes(' " + f"{far:.2f}" + " %')")
    assert far < float(opened.figure("Bayes attack", "#audit-figures").split()[0]) < near
    image(opened, "page-audit", clip={"x": 0, "y": 0, "width": 1200, "height": 760})


def test_dark_mode(browser: Any, service: RunningService) -> None:
    dark = Opened(browser, service, viewport={"width": 1200, "height": 950}, color_scheme="dark")
    light = "rgb(246, 242, 234)"
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    assert dark.page.evaluate(colour) != light
    dark.type(TEXT)
    assert dark.violations() == []
    image(dark, "page-dark")
    for tab in ("compare", "audit", "budget"):
        dark.page.click(f"#tab-{tab}")
        assert dark.violations() == []
    dark.page.click("#tab-try")
    dark.page.click("#theme")
    assert dark.page.evaluate(colour) == light
    dark.page.click("#theme")
    assert dark.page.evaluate(colour) != light
    assert dark.complaints == []
    dark.context.close()


def test_phone_width(browser: Any, service: RunningService) -> None:
    phone = Opened(browser, service, viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    phone.type(TEXT)
    assert phone.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    phone.page.tap("#out .word >> nth=3")
    card = phone.page.locator("#card")
    card.wait_for(state="visible")
    box = card.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 360
    assert phone.violations() == []
    image(phone, "page-phone")
    phone.type(f"{'long' * 60}. End")
    assert phone.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    inside = "(() => { const e = document.querySelector('#out'); return e.scrollWidth <= e.clientWidth; })()"
    assert phone.page.evaluate(inside)
    assert phone.complaints == []
    phone.context.close()


def test_keyboard_alone(opened: Opened) -> None:
    page = opened.page

    def focused() -> str:
        return str(page.evaluate("document.activeElement.id || document.activeElement.className"))

    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = []
    for _ in range(30):
        page.keyboard.press("Tab")
        seen.append(focused())
        if seen[-1] == "text":
            break
    assert seen[-1] == "text", seen
    page.keyboard.type("cold food")
    opened.until("document.querySelectorAll('#out .word').length === 2")
    opened.until("!document.querySelector('#copy').disabled")
    for _ in range(12):
        page.keyboard.press("Tab")
        if "word" in focused().split():
            break
    assert "word" in focused().split()
    assert page.locator("#card").is_visible()
    assert "cold" in page.inner_text("#card")
    page.keyboard.press("ArrowRight")
    assert "food" in page.inner_text("#card h3")
    page.keyboard.press("Escape")
    assert not page.locator("#card").is_visible()
    page.focus("#epsilon")
    before = page.inner_text("#epsilon-value")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#epsilon-value") != before
    page.focus("#tab-try")
    page.keyboard.press("ArrowRight")
    assert focused() == "tab-compare"
    assert page.locator("#panel-compare").is_visible()
    page.keyboard.press("End")
    assert page.locator("#panel-budget").is_visible()
    assert opened.violations() == []


def test_a_dropped_file_is_read(opened: Opened) -> None:
    opened.page.evaluate(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(["good food"], "note.txt", {type: "text/plain"}));
          const drop = new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true});
          document.querySelector("#text").dispatchEvent(drop);
        }"""
    )
    opened.until("document.querySelectorAll('#out .word').length === 2")
    assert opened.page.input_value("#text") == "good food"


def test_markup_in_a_text_stays_text(opened: Opened) -> None:
    opened.page.fill("#text", "<img src=x onerror=document.title='gone'> food")
    opened.until("document.querySelector('#out').textContent.includes('<')")
    assert opened.page.locator("#out img").count() == 0
    assert opened.page.title() != "gone"


def test_nothing_is_stored_in_the_browser(opened: Opened) -> None:
    opened.type("secretly cold food")
    stored = opened.page.evaluate(
        """async () => [localStorage.length, sessionStorage.length, document.cookie,
             (await indexedDB.databases()).length, (await caches.keys()).length]"""
    )
    assert stored == [0, 0, "", 0, 0]
    opened.page.goto("about:blank")
    opened.page.go_back()
    opened.until("document.querySelector('#mechanism').options.length > 0")
    assert opened.page.input_value("#text") == ""
    assert "secretly" not in opened.page.inner_text("body")


def test_an_unusable_key_is_said(opened: Opened) -> None:
    opened.page.fill("#key", "sfu_reader_" + "x" * 43)
    opened.page.keyboard.press("Tab")
    opened.page.wait_for_selector("#status.wrong")
    assert "no such key" in opened.page.inner_text("#status")
    opened.complaints.clear()  # the browser notes the status 401 on its console
