"""What the page is given: who may have it, how many may look, and how it ends."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from http.client import HTTPResponse
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serve.page.live_server import LiveServer
from tests.waiting import LIMIT, eventually
from tvm_hetero.report.schedule.palette import _BLUE, _GREEN, _ORANGE, _PURPLE, _SKY, _VERMILLION
from tvm_hetero.serve.models.statistics import EndedQuery
from tvm_hetero.serve.page.assets import page_files
from tvm_hetero.serve.page.viewers import MOST_VIEWERS, page_data

KEY = "a-key-of-sixteen"
DATA = ("/page/state.json", "/page/events", "/page/plans/dense", "/metrics")
FILES = ("/", "/page/page.css", "/page/charts.css", "/page/gantt.css", "/page/main.js")


def ask(url: str, headers: Mapping[str, str] | None = None) -> HTTPResponse:
    """An answer, which may be read as it comes."""
    request = urllib.request.Request(url, headers=dict(headers or {}))
    answer: HTTPResponse = urllib.request.urlopen(request, timeout=LIMIT)
    return answer


def status(url: str, headers: Mapping[str, str] | None = None) -> int:
    """Of an answer, whatever it is."""
    try:
        with ask(url, headers) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code


def next_document(stream: HTTPResponse) -> Any:
    """Of a stream of events; None at its end."""
    line = stream.readline()
    if not line:
        return None
    assert line.startswith(b"data: ") and stream.readline() == b"\n"
    return json.loads(line.removeprefix(b"data: "))


@pytest.fixture(scope="module")
def locked(served_models):
    with LiveServer(served_models, ("dense",), key=KEY) as server:
        yield server


@pytest.mark.parametrize("path", DATA)
def test_data_needs_the_key(locked, path):
    assert status(locked.url + path) == 401
    assert status(locked.url + path, {"Authorization": "Bearer x"}) == 401
    assert status(locked.url + path, {"Authorization": f"Bearer {KEY}"}) == 200


@pytest.mark.parametrize("path", FILES)
def test_the_page_itself_is_open_and_may_load_nothing_from_elsewhere(locked, path):
    with ask(locked.url + path) as reply:
        policy = reply.headers["Content-Security-Policy"]
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy


def test_a_file_that_is_none_of_the_pages_is_not_there(locked):
    for path in ("/page/viewers.py", "/page/..%2fviewers.py", "/page/nothing.js", "/page/"):
        assert status(locked.url + path, {"Authorization": f"Bearer {KEY}"}) == 404


def test_the_pages_files_name_nothing_outside_of_the_server():
    for name, text in page_files().items():
        without = text.replace(b"http://www.w3.org/2000/svg", b"")
        assert b"://" not in without, name
        assert b"innerHTML" not in text, name


def test_models_have_the_colours_of_reports():
    css = page_files()["charts.css"].decode()
    for place, colour in enumerate((_BLUE, _VERMILLION, _GREEN, _PURPLE, _ORANGE, _SKY)):
        assert f".own{place} {{ --own: {colour[0]};" in css


def test_the_document_tells_of_the_last_minute(live):
    live.end(
        EndedQuery("dense", "1", "success", "", 0.1, 0.2, 0.4, 3, 0.3),
        EndedQuery("dense", "1", "deadline", "", 0.0, 0.0, 0.4, 1, 0.3),
        EndedQuery("dense", "1", "refused", "queue_full"),
    )

    def dense() -> Any:
        with ask(f"{live.url}/page/state.json") as reply:
            models = json.load(reply)["models"]
        return next(model for model in models if model["name"] == "dense")

    assert eventually(lambda: sum(dense()["answered"]) == 1)  # when the second is over
    told = dense()
    assert (told["met"], told["missed"]) == (0, 2)
    assert told["refused"] == {"queue_full": 1}
    assert told["lost"] == {"deadline": 1}
    assert told["requests"] == {"success": 1, "deadline": 1, "refused": 1}
    ((begin, end, count),) = told["bins"]
    assert begin <= 0.4 <= end and count == 1
    assert told["latency"]["p50"] == pytest.approx(0.4, rel=0.13)


def test_tokens_of_a_completion_are_counted_as_a_scraper_and_the_page_see_them(live):
    body = {"model": "words", "prompt": [1, 2, 3], "max_tokens": 8, "seed": 1, "ignore_eos": True}
    with ask(f"{live.url}/metrics") as reply:
        before = tokens_told(reply.read().decode())
    request = urllib.request.Request(
        f"{live.url}/v1/completions", json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )  # fmt: skip
    with urllib.request.urlopen(request, timeout=LIMIT) as reply:
        usage = json.load(reply)["usage"]
    with ask(f"{live.url}/metrics") as reply:
        after = tokens_told(reply.read().decode())
    assert after[0] - before[0] == usage["completion_tokens"] > 0
    assert after[1] - before[1] == usage["prompt_tokens"] == 3
    assert after[2] - before[2] == 1

    def words() -> Any:
        with ask(f"{live.url}/page/state.json") as reply:
            return next(each for each in json.load(reply)["models"] if each["name"] == "words")

    assert eventually(lambda: sum(words()["decoder"]["tokens"]) == after[0])
    assert words()["decoder"]["first"]["p50"] > 0


def tokens_told(text: str) -> tuple[float, float, float]:
    """Tokens written and read, and texts that were finished, by all decoders."""
    values = {s.name: s.value for f in text_string_to_metric_families(text) for s in f.samples
              if s.labels.get("model") == "words" and "le" not in s.labels
              and s.labels.get("outcome", "success") == "success"}  # fmt: skip
    names = ("generated_tokens_total", "prompt_tokens_total", "requests_total")
    made, read, finished = (values.get(f"tvm_hetero_{name}", 0.0) for name in names)
    return made, read, finished


def test_a_plan_is_told_with_its_proof(live):
    with ask(f"{live.url}/page/plans/words") as reply:
        plan = json.load(reply)
    assert plan["svg"].startswith('<svg class="gantt"')
    assert "style=" not in plan["svg"]  # the page's policy would not show it
    assert plan["proof"].startswith("a better plan could save")
    assert status(f"{live.url}/page/plans/unknown") == 404


def test_so_many_may_look_and_one_more_is_told_to_come_back(live):
    streams = [ask(f"{live.url}/page/events") for _ in range(MOST_VIEWERS)]
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(f"{live.url}/page/events")
    assert refused.value.code == 429
    assert int(refused.value.headers["Retry-After"]) > 0
    for stream in streams:
        stream.close()
    data = page_data(live.server.context)
    assert eventually(lambda: data.viewers == 0)
    assert eventually(lambda: live.server.context.busy == 0)


def test_all_viewers_of_a_second_are_given_one_document(live):
    async def twice() -> tuple[bytes, bytes]:
        data = page_data(live.server.context)
        return data.document(), data.document()

    first, second = live.call(twice())
    assert first is second
    with ask(f"{live.url}/page/events") as stream:
        assert next_document(stream)["now"] < next_document(stream)["now"]


def test_a_stream_ends_when_the_server_drains_and_says_so(served_models):
    with LiveServer(served_models, ("dense",)) as server:
        stream = ask(f"{server.url}/page/events")
        assert next_document(stream)["draining"] is False
    documents = []
    while (document := next_document(stream)) is not None:
        documents.append(document["draining"])
    assert documents[-1] is True
