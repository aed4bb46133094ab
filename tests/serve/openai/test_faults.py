"""Hang-ups, deadlines, full queues, failures within a stream: nothing is computed for no one."""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
import urllib.request

import openai
import pytest

from tests.serve.in_process import serving, slow_down
from tests.serve.openai.conftest import SLOTS
from tests.waiting import eventually
from tvm_hetero.errors import RunError
from tvm_hetero.serve.core.limits import Limits

KEY = "a-key-of-enough-letters"


@pytest.fixture(scope="module")
def inside(chat_model):
    """A server whose steps take 10 ms, with a queue of 2 and 8 streams of one client."""
    limits = Limits(queue=2, streams=8)
    with serving({"chat": chat_model}, key=KEY, limits=limits, compatible_metrics=True) as server:
        slow_down(server.decoder_model("chat").decoder, 0.01)
        yield server


@pytest.fixture
def client(inside):
    yield openai.OpenAI(base_url=f"{inside.url}/v1", api_key=KEY, max_retries=0)
    assert eventually(lambda: is_idle(inside))


def is_idle(inside):
    model = inside.decoder_model("chat")
    return inside.ask(lambda: (model.waiting, model.running)) == (0, 0)


def ask(client, most=150, **more):
    return client.completions.create(
        model="chat", prompt="the dog", max_tokens=most, temperature=0,
        extra_body={"ignore_eos": True, **more.pop("extra_body", {})}, **more,
    )  # fmt: skip


def test_a_model_is_not_closed_under_a_request_that_has_found_it(inside, client):
    users = inside.served("chat").users
    stream = ask(client, stream=True)
    next(iter(stream))
    assert len(users) == 1  # else a new version that comes now would end it
    stream.close()
    assert eventually(lambda: not users)


def test_without_the_key_nothing_is_answered(inside):
    stranger = openai.OpenAI(base_url=f"{inside.url}/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        ask(stranger)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_hangs_up_frees_its_slot_at_once(inside, client, stream):
    inside.ended.clear()
    body = json.dumps({"model": "chat", "prompt": "the dog", "max_tokens": 150, "ignore_eos": True,
                       "stream": stream}).encode()  # fmt: skip
    with socket.create_connection(("127.0.0.1", inside.server.port)) as raw:
        raw.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
            b"%d\r\nAuthorization: Bearer %s\r\n\r\n%s" % (len(body), KEY.encode(), body)
        )
        if stream:
            assert b"200 OK" in raw.recv(65536)
        else:
            assert eventually(lambda: not is_idle(inside))
    assert eventually(lambda: is_idle(inside))
    assert eventually(lambda: bool(inside.ended))
    (ended,) = inside.ended
    assert ended.reason == "cancelled"
    assert ended.new_tokens < 150
    # The slot is free, and what comes next is right.
    assert ask(client, 2).usage.completion_tokens == 2


def test_a_stream_that_is_closed_early_is_a_hang_up(inside, client):
    inside.ended.clear()
    with ask(client, stream=True) as stream:
        next(iter(stream))
    assert eventually(lambda: bool(inside.ended))
    assert inside.ended[0].reason == "cancelled"


@pytest.mark.parametrize("how", ["body", "header"])
def test_the_answer_is_over_at_its_deadline(inside, client, how):
    inside.ended.clear()
    given = (
        {"extra_body": {"timeout": 0.2}}
        if how == "body"
        else {"extra_headers": {"tvm-hetero-timeout-us": "200000"}}
    )
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client, **given)
    assert (caught.value.status_code, caught.value.code) == (504, "deadline")
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert eventually(lambda: bool(inside.ended))
    assert inside.ended[0].reason == "deadline"


def test_a_deadline_within_a_stream_is_an_event(client):
    told = ""
    for timeout in (0.3, 0.6, 0.9, 1.2):  # on a busy machine the first token may come late
        with pytest.raises(openai.APIError, match="deadline"):
            for chunk in ask(client, stream=True, extra_body={"timeout": timeout}):
                told += chunk.choices[0].text
        if told:
            break
    assert told


def test_who_cannot_wait_is_told_when_to_come_back(inside, client):
    fill = openai.OpenAI(base_url=f"{inside.url}/v1", api_key=KEY, max_retries=0)
    stream = ask(fill, stream=True, n=SLOTS)
    next(iter(stream))
    waiting = threading.Thread(target=lambda: ask(fill, 1, n=2))
    waiting.start()
    model = inside.decoder_model("chat")
    assert eventually(lambda: inside.ask(lambda: model.waiting) == 2)
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client)
    assert (caught.value.status_code, caught.value.code) == (503, "queue_full")
    headers = caught.value.response.headers
    assert int(headers["Retry-After"]) >= 1
    assert headers["x-should-retry"] == "true"
    stream.close()
    waiting.join()
    with pytest.raises(openai.BadRequestError, match="asked for at once"):
        ask(client, n=SLOTS + 3)
    # The client's own retries get through when there is room again.
    patient = openai.OpenAI(base_url=f"{inside.url}/v1", api_key=KEY, max_retries=3)
    assert ask(patient, 1).usage.completion_tokens == 1


def test_at_the_door_a_full_queue_is_said_before_the_body_has_come(inside, client):
    model = inside.decoder_model("chat")
    stream = ask(client, stream=True, n=SLOTS)
    next(iter(stream))
    waiting = threading.Thread(target=lambda: ask(client, 1, n=2))
    waiting.start()
    assert eventually(lambda: inside.ask(lambda: model.waiting) == 2)
    connection = http.client.HTTPConnection("127.0.0.1", inside.server.port, timeout=60)
    connection.putrequest("POST", "/v1/completions")
    connection.putheader("Authorization", f"Bearer {KEY}")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders()  # and no body
    assert connection.getresponse().status == 503
    connection.close()
    assert inside.ended[-1].reason == "refused: queue_full"
    stream.close()
    waiting.join()


def test_a_client_has_so_many_streams_and_no_more(inside, client):
    inside.server.context.parts["openai.streams"]["127.0.0.1"] += 8
    try:
        with pytest.raises(openai.RateLimitError) as caught:
            ask(client)
    finally:
        inside.server.context.parts["openai.streams"]["127.0.0.1"] -= 8
    assert caught.value.code == "streams"
    assert caught.value.response.headers["Retry-After"] == "1"


def test_what_fails_within_a_stream_is_an_event_and_others_go_on(inside, client):
    decoder = inside.decoder_model("chat").decoder
    step, count = decoder.step, iter(range(1000))

    def failing(group, tokens, positions):
        if next(count) == 5:
            raise RunError("a kernel has failed")
        return step(group, tokens, positions)

    decoder.step = failing
    try:
        with pytest.raises(openai.APIError, match="a kernel has failed"):
            for _ in ask(client, stream=True):
                pass
    finally:
        decoder.step = step
    assert ask(client, 3).usage.completion_tokens == 3


def test_each_text_is_counted_with_its_times(inside, client):
    inside.ended.clear()
    inside.firsts = inside.nexts = 0
    begun = time.monotonic()
    answer = ask(client, 12, n=2)
    whole = time.monotonic() - begun
    assert eventually(lambda: len(inside.ended) == 2)
    assert (inside.firsts, inside.nexts) == (2, 22)
    for ended in inside.ended:
        assert (ended.model, ended.reason, ended.new_tokens) == ("chat", "length", 12)
        assert ended.prompt_tokens == answer.usage.prompt_tokens
        assert 0 < ended.queued <= ended.first_token <= ended.whole <= whole
        assert ended.between_tokens > 0
    statistics = inside.served("chat").statistics
    assert statistics.pending == 0
    assert statistics.success.count > 0


def test_vllms_gauges_count_texts_and_not_requests(inside, client):
    stream = ask(client, stream=True, n=SLOTS - 1)
    next(iter(stream))
    request = urllib.request.Request(
        f"{inside.url}/metrics", headers={"Authorization": f"Bearer {KEY}"}
    )
    with urllib.request.urlopen(request) as reply:
        told = reply.read().decode().splitlines()
    stream.close()
    assert f'vllm:num_requests_running{{model_name="chat"}} {SLOTS - 1:.1f}' in told
    assert 'vllm:num_requests_waiting{model_name="chat"} 0.0' in told
    assert f'vllm:kv_cache_usage_perc{{model_name="chat"}} {(SLOTS - 1) / SLOTS}' in told


def test_a_model_is_held_by_who_is_answered_and_let_go_by_who_hangs_up(inside, client):
    users = inside.served("chat").users
    stream = ask(client, stream=True)
    next(iter(stream))
    assert inside.ask(lambda: len(users)) == 1  # a new version would not close it now
    stream.close()
    assert eventually(lambda: inside.ask(lambda: len(users)) == 0)


def test_a_high_priority_passes_those_who_wait(inside, client):
    model = inside.decoder_model("chat")
    streams = [ask(client, stream=True) for _ in range(SLOTS)]
    inside.ended.clear()

    def wait(tier: str, most: int) -> None:
        ask(client, most, extra_body={"service_tier": tier})

    asked = [("default", 1), ("priority", 2)]
    threads = [threading.Thread(target=wait, args=each) for each in asked]
    for count, thread in enumerate(threads, 1):
        thread.start()
        assert eventually(lambda count=count: inside.ask(lambda: model.waiting) == count)
    streams.pop().close()  # one slot, so they enter one after the other
    for thread in threads:
        thread.join()
    for stream in streams:
        stream.close()
    assert [each.new_tokens for each in inside.ended if each.reason == "length"] == [2, 1]


def test_closing_the_model_ends_what_runs_with_an_error(chat_model):
    with serving({"chat": chat_model}) as server:
        slow_down(server.decoder_model("chat").decoder, 0.01)
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        stream = iter(ask(client, stream=True))
        next(stream)
        server.decoder_model("chat").close()
        with pytest.raises(openai.APIError, match="closed"):
            for _ in stream:
                pass
        with pytest.raises(openai.InternalServerError, match="closed"):
            ask(client)


def test_what_runs_when_the_server_drains_ends_or_is_told_why(chat_model):
    with serving({"chat": chat_model}, drain=0.1) as server:
        slow_down(server.decoder_model("chat").decoder, 0.01)
        client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
        stream, whole = iter(ask(client, stream=True)), []
        next(stream)

        def wait() -> None:
            with pytest.raises(openai.InternalServerError) as caught:
                ask(client)
            whole.append((caught.value.code, caught.value.response.headers["Retry-After"]))

        waiting = threading.Thread(target=wait)
        waiting.start()
        model = server.decoder_model("chat")
        assert eventually(lambda: server.ask(lambda: model.running) == 2)
        server.drain()
        with pytest.raises(openai.APIError, match="the server ended before"):
            for _ in stream:
                pass
        waiting.join()
        assert whole == [("draining", "1")]
        assert eventually(lambda: server.ask(lambda: model.running) == 0)


def test_a_reader_who_does_not_read_is_cut_off(chat_model):
    with serving({"chat": chat_model}, limits=Limits(stalled=0.2, choices=64)) as server:
        # More than the buffers of two sockets hold.
        asked = {"prompt": "the dog", "max_tokens": 180, "n": 64, "logprobs": 20}
        body = json.dumps({"model": "chat", "ignore_eos": True, "stream": True, **asked}).encode()
        with socket.socket() as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            raw.connect(("127.0.0.1", server.server.port))
            raw.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: "
                b"%d\r\n\r\n%s" % (len(body), body)
            )
            assert eventually(lambda: len(server.ended) == 64)
        assert "cancelled" in {each.reason for each in server.ended}
