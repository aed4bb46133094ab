"""The page in a real browser: it tells the truth, all can use it, nothing comes from elsewhere."""

from __future__ import annotations

import os
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serve.page.live_server import LiveServer
from tvm_hetero.serve.core.events import SWITCH, ServerEvent
from tvm_hetero.serve.models.statistics import EndedQuery

NAMES = ("branchy", "dense", "words")
SHOWN = "!document.querySelector('main').hidden"
PHONE = {"viewport": {"width": 360, "height": 740}, "is_mobile": True, "has_touch": True}


def busy_minute(live: LiveServer) -> None:
    """Let all parts of the page have something to show."""

    async def see() -> None:
        live.metrics.events.record(ServerEvent(SWITCH, "two layers moved to core 3", "dense"))
        live.metrics.tokens.first_token("words", "1", 12, 0.09)
        live.metrics.tokens.next_token("words", "1", 0.02)

    live.call(see())
    live.infer("dense", 3, 10.0)
    live.end(
        EndedQuery("branchy", "1", "success", "", 0.01, 0.03, 0.05, 1, 0.02),
        EndedQuery("words", "1", "success", "", 0.1, 0.4, 0.6, 1, None),
        *(
            EndedQuery("branchy", "1", "success", "", 0.01, 0.03, 0.04, 1, 0.05, n, 3)
            for n in (1, 0, 0)
        ),
        EndedQuery("dense", "1", "refused", "queue_full"),
        EndedQuery("dense", "1", "failed", "", 0.0, 0.0, 0.1, 1, 10.0),
    )


def counted(live: LiveServer, name: str, **labels: str) -> float:
    """The sum of a sample in ``/metrics``."""
    with urllib.request.urlopen(f"{live.url}/metrics") as reply:
        families = text_string_to_metric_families(reply.read().decode())
    samples = [s for family in families for s in family.samples if s.name == name]
    return sum(s.value for s in samples if labels.items() <= s.labels.items())


@pytest.fixture(scope="module", autouse=True)
def all_parts(live):
    busy_minute(live)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(live, open_page, scheme):
    view = open_page(live.url + "/", color_scheme=scheme)
    view.until("document.querySelectorAll('#trouble tbody tr').length >= 2")
    view.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    view.until("document.querySelectorAll('.gantt').length === 3")
    assert view.accessibility_faults() == []


def test_batches_are_told_where_queries_were_computed_together(live, open_page):
    view = open_page(live.url + "/")
    view.until("document.querySelectorAll('article.card').length === 3")
    figures = view.page.evaluate(
        "[...document.querySelectorAll('article dl')].map(each => each.textContent)"
    )
    (told,) = [text for text in figures if "queries a batch" in text]
    assert "computed in batches75.0" in told and "queries a batch3" in told


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_forbidden(live, open_page):
    view = open_page(live.url + "/")
    view.until("document.querySelectorAll('.gantt').length === 3")
    view.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    before = view.text("#facts")
    view.until(f"document.querySelector('#facts').textContent !== {before!r}")
    assert (view.strangers, view.faults) == ([], [])


def test_a_phone_does_not_scroll_sideways(live, open_page):
    view = open_page(live.url + "/", **PHONE)
    view.until("document.querySelectorAll('.gantt').length === 3")
    view.page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert view.page.evaluate("document.documentElement.scrollWidth") == 360
    assert view.page.evaluate("document.body.scrollWidth") <= 360


def test_the_keyboard_reaches_all_that_can_be_used(live, open_page):
    view = open_page(live.url + "/")
    view.until("document.querySelectorAll('.gantt').length === 3")
    reached: list[str] = []
    while "/metrics" not in reached and len(reached) < 20:
        view.page.keyboard.press("Tab")
        reached.append(view.page.evaluate("document.activeElement.textContent.trim().slice(0, 12)"))
    assert reached[0].startswith("Skip to")
    assert reached[1] in ("Dark", "Light")
    assert sum(text.startswith("Plan") for text in reached) == 3
    assert reached[-1] == "/metrics"


def test_the_keyboard_opens_a_plan_and_changes_the_colours(live, open_page):
    view = open_page(live.url + "/", color_scheme="light")
    view.until("document.querySelectorAll('.gantt').length === 3")
    view.page.focus("#theme")
    view.page.keyboard.press("Enter")
    assert view.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    view.page.reload()
    assert view.page.evaluate("document.documentElement.dataset.theme") == "dark"
    view.page.wait_for_selector(".gantt", state="attached")
    view.page.focus(".plan summary")
    view.page.keyboard.press("Enter")
    assert view.page.is_visible(".plan .gantt")


def test_figures_on_the_page_are_those_of_the_metrics(live, open_page):
    view = open_page(live.url + "/")
    view.until(SHOWN)
    before = counted(live, "tvm_hetero_requests_total", model="branchy", outcome="success")
    live.infer("branchy", 7, 10.0)
    after = counted(live, "tvm_hetero_requests_total", model="branchy", outcome="success")
    assert after - before == 7
    everything = counted(live, "tvm_hetero_requests_total", outcome="success")
    view.until(
        f"document.querySelector('#summary').textContent.includes('{everything:.0f} requests')"
    )
    refused = counted(live, "tvm_hetero_refused_total")
    assert f"Refused\n{refused:.0f}\n" in view.text("#summary")
    cards = view.text("#models")
    assert "branchy" in cards
    assert "SLO 10 s" in cards
    assert "refused: queue full" in view.text("#trouble")


def test_the_slowest_request_and_what_happened_are_told(live, open_page):
    view = open_page(live.url + "/")
    view.until(SHOWN)
    assert "words: 600 ms" in view.text("#slowest")
    assert "waited 100 ms" in view.text("#slowest")
    assert "two layers moved to core 3" in view.text("#events")
    assert "version 1 takes queries" in view.text("#events")


def test_each_core_has_a_lane_and_each_model_a_colour(live, open_page):
    live.infer("dense", 2)
    view = open_page(live.url + "/")
    view.until("document.querySelector('#cores .own1') !== null")
    lanes = view.page.eval_on_selector_all("#cores text", "all => all.map(t => t.textContent)")
    cores = sorted(os.sched_getaffinity(0))
    assert [text for text in lanes if text.startswith("core")] == [f"core {i}" for i in cores]
    legend = view.text("#cores .legend")
    assert all(name in legend for name in (*NAMES, "free"))


def test_names_of_models_are_text_and_nothing_else(live, open_page):
    async def see():
        live.metrics.events.record(
            ServerEvent(SWITCH, "<img src=x onerror=document.title='run'>", "<b>bold</b>")
        )

    live.call(see())
    view = open_page(live.url + "/")
    view.until("document.querySelector('#events').textContent.includes('<img src=x')")
    assert view.page.query_selector("#events img") is None
    assert view.page.title() == "tvm_hetero: what is served"


def test_the_page_asks_for_the_servers_key(served_models, open_page):
    with LiveServer(served_models, ("dense",), key="a-key-of-sixteen") as server:
        view = open_page(server.url + "/")
        view.page.fill("#key-text", "not the right one")
        view.page.click("#key button")
        view.until("document.querySelector('#key-wrong').textContent !== ''")
        assert not view.page.is_visible("main")
        view.page.fill("#key-text", "a-key-of-sixteen")
        view.page.keyboard.press("Enter")
        view.page.wait_for_selector("main article h3")
        assert view.text("main article h3") == "dense"
        kept = "[sessionStorage.length, localStorage.length, document.cookie]"
        assert view.page.evaluate(kept) == [1, 0, ""]
        assert view.accessibility_faults() == []


def test_an_idle_server_says_what_to_do(served_models, open_page):
    with LiveServer(served_models, ("dense",)) as server:
        view = open_page(server.url + "/")
        view.until(SHOWN)
        assert f"curl {server.url}/v2/models/dense" in view.text("#models")
        assert f"load-test {server.url} --model dense" in view.text("#models")
        assert "set one: --slo NAME=20ms" in view.text("#summary")
        assert "Nothing was refused" in view.text("#trouble")
        assert "free, 100 %" in view.text("#cores")
        view.until("document.querySelector('.plan').open")


def test_a_server_that_ends_is_told_and_its_last_figures_stay(served_models, open_page):
    with LiveServer(served_models, ("dense",)) as server:
        view = open_page(server.url + "/")
        view.until(SHOWN)
    view.until("!document.querySelector('#notice').hidden")
    assert "What is shown is the last that came" in view.text("#notice")
    assert view.page.is_visible("main article")
