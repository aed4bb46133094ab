"""What a server says to who starts it."""

from __future__ import annotations

from tvm_hetero.serve.core.options import ServeOptions
from tvm_hetero.serve.greeting import greeting


def test_it_says_what_it_loads_what_that_takes_and_where_it_is(start_server):
    process = start_server("dense", "words", "--slo", "dense=20ms")
    loading, *served, ready = (line.rstrip() for line in process.lines)
    assert loading == "loading dense, words"
    assert served[0] == "dense: input0 FP32 [1, 32] -> output0 FP32 [1, 10]; SLO 20.0 ms"
    assert served[1] == (
        "words: generates token ids (it has no tokenizer), 64 tokens at most, 4 at once"
    )
    assert ready.startswith(f"ready on {process.url}/ ") and "/openapi.json" in ready
    assert len(served) == 2
    # What is not there is answered with where it stands.
    reply = process.get("/nothing")
    assert reply.status == 404
    assert "/openapi.json" in reply.json["error"]


def test_it_warns_who_lets_everyone_in(start_server):
    assert "warning: whoever reaches" in "".join(start_server("dense", "--host", "0.0.0.0").lines)


def test_it_warns_no_one_who_asks_for_a_key_or_stays_at_home():
    for options, warned in (
        (ServeOptions(host="0.0.0.0"), True), (ServeOptions(host="0.0.0.0", key="0" * 16), False),
        (ServeOptions(host="127.0.0.1"), False),
    ):  # fmt: skip
        said = "".join(greeting([], options, 80))
        assert ("warning" in said) == warned and "ready on" in said
